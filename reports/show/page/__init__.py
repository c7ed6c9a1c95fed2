"""The report as one HTML file: answers as compact JSON, and a script that draws them."""
