// A rank for the tests of launchers: joins, sums rank + 1 over all ranks, and does what its arguments ask.
import { existsSync, readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { joinWorld } from '@mtl/comm';
import { ConfigurationError, chooseExitCode, formatError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

const [behaviour, whose, file] = process.argv.slice(2);
const { RANK, SLURM_PROCID, MTL_RESTART_COUNT = '0', TIMEOUT_MS = '60000' } = process.env;

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));

try {
  // before it is a member of anything
  if (behaviour === 'early' && (RANK ?? SLURM_PROCID) === whose && MTL_RESTART_COUNT === '0') process.exit(7);
  // what standard error holds must not depend on how busy the machine is
  const onWait = () => {};
  const world = await joinWorld({ timeoutMs: Number(TIMEOUT_MS), abortGraceMs: 3_000, onWait });
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
  if (behaviour === 'loop') forever();
  if (behaviour === 'exit') isChosen ? process.exit(7) : forever();
  if (behaviour === 'configuration') {
    if (!isChosen) forever();
    throw new ConfigurationError('MTL_CHOSEN', 'a flag is wrong', { remedy: 'pass another' });
  }
  if (behaviour === 'throw') {
    if (!isChosen) forever();
    const error = new Error('the loss is not a number');
    world.abort(error);
    throw error;
  }
  if (behaviour === 'stop') {
    if (isChosen || whose === 'all') process.kill(process.pid, 'SIGSTOP');
    forever();
  }
  if (behaviour === 'once' && restartCount === 0) isChosen ? process.kill(process.pid, 'SIGKILL') : forever();
  if (behaviour === 'wait') {
    process.on('SIGTERM', () => {
      writeSync(1, `rank ${rank} got SIGTERM\n`);
      if (whose !== 'deaf') process.exit(0);
    });
    writeFileSync(`${file}.${rank}`, String(process.pid));
    while (!existsSync(`${file}.end`)) await pause();
  }
  // fails once, when all others have ended well
  if (behaviour === 'last' && restartCount === 0) {
    const others = Array.from({ length: size }, (_, each) => `${file}.${each}`).filter(
      (_, each) => each !== rank,
    );
    if (isChosen) {
      while (!others.every((path) => existsSync(path) && !isAlive(Number(readFileSync(path, 'utf8')))))
        await pause();
      process.exit(7);
    }
    writeFileSync(`${file}.${rank}.part`, String(process.pid));
    renameSync(`${file}.${rank}.part`, `${file}.${rank}`);
  }
  world.close();
} catch (error) {
  process.stderr.write(`${formatError(error)}\n`);
  process.exit(chooseExitCode(error));
}
