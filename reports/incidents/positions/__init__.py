"""What groups read: behind, passed over, again, or not at all."""
