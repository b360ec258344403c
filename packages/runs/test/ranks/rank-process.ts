// One rank as a separate process: RANK ORDER_FILE RESULT_FILE
import { readFileSync, writeFileSync } from 'node:fs';
import { joinWorld, type World } from '@mtl/comm';
import type { ProcessOrder } from '../support/run-processes.js';

const [rankText, orderPath, resultPath] = process.argv.slice(2) as [string, string, string];
const rank = Number(rankText);
const { module, argument, engine, worldSize, port } = JSON.parse(
  readFileSync(orderPath, 'utf8'),
) as ProcessOrder;
const isAlone = engine === 'gloo';
const world = await joinWorld({
  engine,
  timeoutMs: 60_000,
  environment: {
    launcher: 'variables',
    storeHost: 'rank 0',
    restartCount: 0,
    rank,
    worldSize,
    masterAddress: '127.0.0.1',
    masterPort: port,
    storePorts: [port],
    localRank: isAlone ? 0 : rank,
    localWorldSize: isAlone ? 1 : worldSize,
    nodeRank: isAlone ? rank : 0,
    numNodes: isAlone ? worldSize : 1,
  },
});
try {
  const { default: run } = (await import(module)) as {
    default: (world: World, argument: unknown) => unknown;
  };
  const result = await run(world, argument);
  writeFileSync(resultPath, JSON.stringify({ used: world.group.engine, result }));
} catch (error) {
  world.abort(error as Error);
  throw error;
}
world.close();
