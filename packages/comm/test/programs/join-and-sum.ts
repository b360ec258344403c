// A rank: joins, sums rank + 1 over all ranks, prints its result as one line of JSON, and then does what the
// variable BEHAVIOUR says.
import { writeSync } from 'node:fs';
import { joinWorld } from '@mtl/comm';
import { chooseExitCode, formatError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

const { BEHAVIOUR = '', TIMEOUT_MS = '20000', HEARTBEAT_MS = '15000' } = process.env;
const [behaviour, whose] = BEHAVIOUR.split(' ');

try {
  const world = await joinWorld({
    timeoutMs: Number(TIMEOUT_MS),
    heartbeatLimitMs: Number(HEARTBEAT_MS),
    abortGraceMs: 3000,
    // no notices of waiting: standard error must have the same contents however busy the machine is
    ...(process.env.SAY_WAITS === undefined ? { onWait: () => {} } : {}),
  });
  const { launcher, localRank, nodeRank, restartCount } = world.environment;
  const tensor = Tensor.from([world.rank + 1], { shape: [1], dtype: 'float32' });
  world.group.allReduce(tensor).wait();
  const { rank, size } = world;
  const { engine } = world.group;
  // one write, so that lines of different ranks do not mix
  writeSync(
    1,
    `${JSON.stringify({ rank, size, engine, sum: tensor.item(), launcher, localRank, nodeRank, restartCount, pid: process.pid })}\n`,
  );
  if (behaviour === 'abort' && rank === Number(whose)) {
    const error = new Error('the loss is not a number');
    world.abort(error);
    throw error;
  }
  if (behaviour === 'exit' && rank === Number(whose)) process.exit(7);
  if (behaviour === 'stop' && rank === Number(whose)) process.kill(process.pid, 'SIGSTOP');
  if (behaviour !== undefined && behaviour !== '') {
    // waits in native code until the failure of another rank ends the wait
    for (;;) world.group.allReduce(tensor).wait();
  }
  world.close();
} catch (error) {
  process.stderr.write(`${formatError(error)}\n`);
  process.exit(chooseExitCode(error));
}
