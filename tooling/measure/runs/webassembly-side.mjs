/**
 * A side of webassembly-steps.mjs: the default run in this process, whose kernels the parent chose. It
 * answers each message with one step, and the message 'end' with the seconds of its operations.
 */
import { hostInformation, operationStatistics, setInstructionSet, setMatmulLibrary } from '@mtl/kernels';
import { train } from '@mtl/runs';

const { threads, instructionSet, matmulLibrary } = JSON.parse(process.argv[2]);
if (instructionSet !== undefined) setInstructionSet(instructionSet);
if (matmulLibrary !== undefined) setMatmulLibrary(matmulLibrary);
const training = await train({
  preset: 'default',
  training: { evalIterations: 0 },
  layout: { threads },
});
const steps = training[Symbol.asyncIterator]();
process.on('message', async (message) => {
  if (message === 'end') {
    const seconds = operationStatistics().map(({ name, seconds }) => [name, seconds]);
    process.send(seconds, () => process.exit());
    return;
  }
  const { value } = await steps.next();
  process.send({ loss: value.loss, ms: value.stepMs });
});
process.send(hostInformation());
