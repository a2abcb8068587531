"""The engine on a GPU: nothing leaves the device between a batch's node ids and its scores."""
