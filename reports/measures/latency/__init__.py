"""Where time went: latency by API, client, broker, topic and time, split into what each part of it was spent on."""
