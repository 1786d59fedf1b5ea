"""Files of arrays: a file per format. Sits beside the transforms, above the ops."""
