// A rank: joins, sums rank + 1 over all ranks, prints its result as one line of JSON, and follows BEHAVIOUR.
import { writeSync } from 'node:fs';
import { joinWorld } from '@mtl/comm';
import { exitCodeOf, formatError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

const { BEHAVIOUR = '', TIMEOUT_MS = '20000', HEARTBEAT_MS = '15000' } = process.env;
const [behaviour, whose] = BEHAVIOUR.split(' ');

try {
  const world = await joinWorld({
    timeoutMs: Number(TIMEOUT_MS),
    heartbeatLimitMs: Number(HEARTBEAT_MS),
    abortGraceMs: 3000,
    // the contents of standard error must not depend on how busy the machine is
    ...(process.env.SAY_WAITS === undefined ? { onWait: () => {} } : {}),
  });
  const { launcher, localRank, nodeRank, restartCount } = world.environment;
  const tensor = Tensor.from([world.rank + 1], { shape: [1], dtype: 'float32' });
  world.group.allReduce(tensor).wait();
  const { rank, size } = world;
  const { engine } = world.group;
  // one write: a line of one rank is never torn by another's
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
    // asleep in native code until the others' failure ends it
    for (;;) world.group.allReduce(tensor).wait();
  }
  world.close();
} catch (error) {
  process.stderr.write(`${formatError(error)}\n`);
  process.exit(exitCodeOf(error));
}
