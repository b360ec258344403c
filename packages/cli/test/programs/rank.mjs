// A rank for the tests of launchers: joins, sums rank + 1 over all ranks, and does what its arguments ask.
import { existsSync, writeFileSync, writeSync } from 'node:fs';
import { joinWorld } from '@mtl/comm';
import { exitCodeOf, formatError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

const [behaviour, whose, file] = process.argv.slice(2);
try {
  const world = await joinWorld({ joinTimeoutMs: 60_000, timeoutMs: 60_000, abortGraceMs: 3_000 });
  const { rank, size, environment, group } = world;
  const tensor = Tensor.from([rank + 1], { shape: [1], dtype: 'float32' });
  group.allReduce(tensor).wait();
  const { launcher, localRank, nodeRank, restartCount } = environment;
  const line = {
    rank,
    size,
    engine: group.engine,
    sum: tensor.item(),
    launcher,
    localRank,
    nodeRank,
    restartCount,
  };
  // one write: a line of one rank is never torn by another's
  writeSync(1, `${JSON.stringify({ ...line, pid: process.pid, threads: process.env.OMP_NUM_THREADS })}\n`);
  const isChosen = rank === Number(whose);
  const forever = () => {
    for (;;) group.allReduce(tensor).wait();
  };
  if (behaviour === 'exit') isChosen ? process.exit(7) : forever();
  if (behaviour === 'configuration') isChosen ? process.exit(2) : forever();
  if (behaviour === 'throw') {
    if (!isChosen) forever();
    const error = new Error('the loss is not a number');
    world.abort(error);
    throw error;
  }
  if (behaviour === 'stop') {
    if (isChosen) process.kill(process.pid, 'SIGSTOP');
    forever();
  }
  if (behaviour === 'once' && restartCount === 0) isChosen ? process.kill(process.pid, 'SIGKILL') : forever();
  if (behaviour === 'wait') {
    process.on('SIGTERM', () => {
      writeSync(1, `rank ${rank} got SIGTERM\n`);
      if (whose !== 'deaf') process.exit(0);
    });
    writeFileSync(`${file}.${rank}`, String(process.pid));
    while (!existsSync(`${file}.end`)) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  world.close();
} catch (error) {
  process.stderr.write(`${formatError(error)}\n`);
  process.exit(exitCodeOf(error));
}
