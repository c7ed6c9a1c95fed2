"""Work that was planned: what administrators ask for, and deployments."""
