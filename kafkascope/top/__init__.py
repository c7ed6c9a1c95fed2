"""`sniff --top`: a full screen of what goes on."""
