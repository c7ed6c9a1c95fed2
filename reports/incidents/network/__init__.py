"""What lies between hosts: packets that are lost, late or vanish, connections that cannot come about."""
