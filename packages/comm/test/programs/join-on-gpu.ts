// A rank with a GPU: joins, runs collectives on tensors of the GPU and of the host, prints its result as one
// line of JSON, and then does what the variable BEHAVIOUR says. CASES: the cases of `collectives`. BACKEND:
// the value of --distributed-backend. RECORDING: a folder for a test that receives while a graph is recorded.
// LATE_MS: how late rank 0 starts the operations that GPUs wait for, in milliseconds.
import { writeSync } from 'node:fs';
import { createMeshGroups, type JobEngineName, joinWorld, ProcessMesh, type Work } from '@mtl/comm';
import { chooseExitCode, formatError } from '@mtl/errors';
import { openDevice, Tensor } from '@mtl/kernels';
import collectives, { type CollectiveCases } from '../ranks/collectives.js';
import { receiveWhileRecording } from '../ranks/receive-while-recording.js';

const {
  BEHAVIOUR = '',
  TIMEOUT_MS = '20000',
  CASES = '{"sizes":[]}',
  BACKEND,
  RECORDING,
  LATE_MS = '0',
  DEVICE_INDEX = '0',
} = process.env;
const [behaviour, whose] = BEHAVIOUR.split(' ');
const dtype = 'float32';

const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Waits until the GPU has finished the operation: with a fake NCCL, an emulated device does not wait for its
 * streams.
 */
function finish(work: Work): void {
  while (!work.isDone) Atomics.wait(sleeper, 0, 0, 1);
  work.wait();
}

try {
  openDevice('cuda', { deviceIndex: Number(DEVICE_INDEX) });
  const messages: string[] = [];
  const world = await joinWorld({
    device: 'cuda',
    timeoutMs: Number(TIMEOUT_MS),
    abortGraceMs: 3000,
    ...(BACKEND === undefined ? {} : { engine: BACKEND as JobEngineName }),
    onMessage: (text) => messages.push(text),
  });
  const { rank, size, group } = world;
  const { device = 'cuda', ...cases } = JSON.parse(CASES) as CollectiveCases;
  const hashes = collectives(world, { ...cases, device });
  const onGpu = Tensor.from([rank + 1], { shape: [1], dtype, device: 'cuda' });
  const onHost = Tensor.from([10 * (rank + 1)], { shape: [1], dtype });
  const parallel = createMeshGroups(world, new ProcessMesh({ tp: size }), { tp: ['tp'] });
  const lateMs = Number(LATE_MS);
  const sum = (): void => {
    if (rank === 0) Atomics.wait(sleeper, 0, 0, lateMs);
    const work = parallel.tp.allReduce(onGpu);
    if (lateMs === 0) finish(work);
    else work.wait();
  };
  const measured = world.deviceWaits?.measure(sum);
  if (measured === undefined) sum();
  parallel.tp.allReduce(onHost).wait();
  const sums = [onGpu.item(), onHost.item()];
  const recorded =
    RECORDING === undefined ? undefined : await receiveWhileRecording(world, { folder: RECORDING, finish });
  const line = {
    recorded,
    rank,
    engine: group.engine,
    messages,
    hashes,
    sums,
    times: measured?.read(),
    hostId: process.env.NCCL_HOSTID,
  };
  writeSync(1, `${JSON.stringify(line)}\n`);
  if (behaviour === 'mixed') {
    group.allGather({ output: Tensor.empty({ shape: [size], dtype, device: 'cuda' }), input: onHost });
  }
  if (behaviour === 'abort' && rank === Number(whose)) {
    const error = new Error('the loss is not a number');
    world.abort(error);
    throw error;
  }
  if (behaviour === 'exit' && rank === Number(whose)) process.exit(7);
  // never starts the operation that the others wait for, until the watchdog ends this process
  if (behaviour === 'silent' && rank === Number(whose)) Atomics.wait(sleeper, 0, 0);
  if (behaviour !== undefined && behaviour !== '') {
    for (;;) finish(group.allReduce(onGpu));
  }
  parallel.close();
  world.close();
} catch (error) {
  process.stderr.write(`${formatError(error)}\n`);
  process.exit(chooseExitCode(error));
}
