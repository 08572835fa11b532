// hidden
