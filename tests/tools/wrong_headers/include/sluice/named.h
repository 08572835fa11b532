// named
