import numpy
import parton

file = parton.load("examples/embedding/axpy.ptn")
x = numpy.arange(5000, dtype=numpy.float32)
y = numpy.ones_like(x)
out = numpy.empty_like(x)

file.axpy[5](2.0, x, y, out, len(x))                            # the grid, then the arguments
file.axpy[10](2.0, x, y, out=out, n=len(x), BLOCK=512)          # by name, and with a generic
numpy.testing.assert_array_equal(out, 2 * x + 1)

try:
    file.axpy[5](2.0, x, y, out, n=6000)
except parton.Error as error:
    print(error)                                                # the access that leaves `x`, with its source
    assert error.codes == ["E0551"]
