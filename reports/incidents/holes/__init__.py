"""What the capture itself cannot show: times of which it has nothing, hosts of which it lacks much."""
