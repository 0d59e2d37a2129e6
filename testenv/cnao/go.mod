module weft.network/testenv/cnao

go 1.22
