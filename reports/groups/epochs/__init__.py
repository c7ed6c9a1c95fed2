"""Groups whose members get their assignments by heartbeats: KIP-848, KIP-932, KIP-1071."""
