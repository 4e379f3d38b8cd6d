#include "textflag.h"
#include "funcdata.h"

// func call()
TEXT ·call(SB), 0, $8-0
	NO_LOCAL_POINTERS
	CALL ·back(SB)
	RET
