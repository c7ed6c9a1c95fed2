"""Members of groups: lost, standing still, too slow, refused, or leaving again and again."""
