# cmake -DINPUT=file -DOUTPUT=header -DNAME=symbol -P embed.cmake: writes the bytes of a file as a C array.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUTPUT} "#include <stdalign.h>\nstatic alignas(16) const unsigned char ${NAME}[] = {\n${hex}\n};\n")
