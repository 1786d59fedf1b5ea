"""Programs made from Programs: batched, for other shapes, or cut into pieces; and dependence analysis."""
