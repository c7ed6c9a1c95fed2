"""What broke: incidents, made of the tables that views leave; a rule may look at any of them."""
