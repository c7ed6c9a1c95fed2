"""Exchanges in, one row each out, by connection; nothing that needs more than one connection."""
