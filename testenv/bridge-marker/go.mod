module weft.network/testenv/bridge-marker

go 1.26.0
