/**
 * The child process of webassembly-steps.mjs. It runs the default training with the kernels that the parent
 * chose. It answers each message with the result of one step, and the message 'end' with the seconds of each
 * operation.
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
  const before = process.cpuUsage();
  const { value } = await steps.next();
  const { user, system } = process.cpuUsage(before);
  process.send({ loss: value.loss, wall: value.stepMs, cpu: (user + system) / 1000 });
});
process.send(hostInformation());
