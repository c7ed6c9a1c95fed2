"""What the tables answer, chosen and ranked for people: the input of the page, the post-mortem and the terminal."""
