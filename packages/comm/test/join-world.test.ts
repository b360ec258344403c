import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { glooProblem } from '@mtl/comm';
import { freePort } from '@mtl/tooling/free-port';
import { reportEngine } from '@mtl/tooling/report-engine';
import { until } from '@mtl/tooling/until';
import { beforeAll, describe, expect, it } from 'vitest';
import { expectOnceWithinASecond } from './support/expect-once-within-a-second.js';
import { type FinishedRank, startJoiningRanks } from './support/start-joining-ranks.js';

const secret = 'the secret of a test';

/** Returns variables for each of `count` processes of a world, as a shell script would set them. */
async function makeVariables(
  world: number,
  { count = world, more = {} }: { count?: number; more?: Readonly<Record<string, string>> } = {},
): Promise<Record<string, string>[]> {
  const port = String(await freePort());
  return Array.from({ length: count }, (_, rank) => ({
    RANK: String(rank),
    WORLD_SIZE: String(world),
    MTL_STORE_PORT: port,
    MTL_JOB_SECRET: secret,
    MTL_JOIN_TIMEOUT: '20',
    ...more,
  }));
}

/** The variables that mpirun sets for rank 0 of two. */
const underOpenMpi = {
  RANK: '',
  WORLD_SIZE: '',
  OMPI_COMM_WORLD_RANK: '0',
  OMPI_COMM_WORLD_SIZE: '2',
  OMPI_COMM_WORLD_LOCAL_RANK: '0',
  OMPI_COMM_WORLD_LOCAL_SIZE: '2',
};

const printed = ({ stdout, stderr }: FinishedRank): Record<string, unknown> => {
  expect(stderr).toBe('');
  const rank = JSON.parse(stdout) as Record<string, unknown>;
  reportEngine(String(rank.engine));
  return rank;
};

describe('joinWorld', () => {
  // started early: this test waits for 7 seconds, while the other tests run
  let waitsForRank0: Promise<FinishedRank[]>;
  beforeAll(async () => {
    const variables = await makeVariables(2, { more: { MTL_JOIN_TIMEOUT: '7', SAY_WAITS: '' } });
    waitsForRank0 = startJoiningRanks('join-and-sum.ts', variables.slice(1)).finished;
  });

  it('brings processes together that only know their ranks', async () => {
    const ranks = await startJoiningRanks('join-and-sum.ts', await makeVariables(3)).finished;
    for (const [rank, each] of ranks.entries()) {
      expect(printed(each)).toMatchObject({ rank, size: 3, engine: 'local', sum: 6, launcher: 'variables' });
      expect(each.status).toBe(0);
    }
  });

  it('needs no secret of the user on one host', async () => {
    const more = { MTL_JOB_SECRET: '', TORCHELASTIC_RUN_ID: randomUUID() };
    // the other ranks start first, and wait for the file of rank 0
    const variables = (await makeVariables(3, { more })).reverse();
    const ranks = await startJoiningRanks('join-and-sum.ts', variables).finished;
    for (const [index, each] of ranks.entries())
      expect(printed(each)).toMatchObject({ rank: 2 - index, size: 3, sum: 6, launcher: 'torchrun' });
  });

  it('is a world of one for a process alone', async () => {
    const [alone] = await startJoiningRanks('join-and-sum.ts', [{}]).finished;
    expect(printed(alone!)).toMatchObject({ rank: 0, size: 1, engine: 'single', sum: 1, launcher: 'single' });
  });

  it('names the ranks that never come, on all that came', { tags: ['whole'] }, async () => {
    const variables = await makeVariables(4, { count: 2, more: { MTL_JOIN_TIMEOUT: '10', SAY_WAITS: '' } });
    const ranks = await startJoiningRanks('join-and-sum.ts', variables).finished;
    for (const { status, stderr } of ranks) {
      expect(stderr).toMatch(
        /error\[MTL_TIMEOUT\]: rank \d waited \d+\.\d s for ranks 2, 3 of 4, which never came/,
      );
      expect(status).toBe(1);
    }
    // the lowest rank that has joined reports the missing ranks for both
    expect(ranks[0]!.stderr).toMatch(/^rank 0 has waited \d+ s for ranks (1, )?2, 3 of 4$/m);
    expect(ranks[1]!.stderr).not.toContain('has waited');
    // the first rank whose time is over tells the others
    expect(ranks.map(({ stderr }) => stderr).join('')).toContain('MTL_JOIN_TIMEOUT=SECONDS waits longer');
  });

  it('refuses a rank with another secret, and two processes of one number', async () => {
    const variables = await makeVariables(2);
    const { children, finished } = startJoiningRanks('join-and-sum.ts', [
      variables[0]!,
      { ...variables[1]!, MTL_JOB_SECRET: 'the secret of another' },
      variables[0]!,
    ]);
    // the rank that holds the store would wait for rank 1 until its time is over
    await until(() => children.filter(({ exitCode }) => exitCode !== null).length === 2);
    for (const child of children) child.kill('SIGKILL');
    const [first, second, third] = await finished;
    expect(second!.stderr).toContain('error[MTL_STORE_REFUSED]');
    expect(second!.status).toBe(1);
    expect(`${first!.stderr}${third!.stderr}`).toContain('MTL_STORE_ADDRESS');
  });

  it('gives every rank the reason of the one that fails, and its number', async () => {
    const variables = await makeVariables(3, { more: { BEHAVIOUR: 'abort 1' } });
    const ranks = await startJoiningRanks('join-and-sum.ts', variables).finished;
    for (const rank of [0, 2]) {
      expect(ranks[rank]!.stderr).toContain('rank 1 failed: Error: the loss is not a number');
      expect(ranks[rank]!.status).toBe(1);
    }
  });

  it.each([0, 1, 2])('ends all within a second when rank %i exits without leaving', async (dead) => {
    await expectOnceWithinASecond(async () => {
      const variables = await makeVariables(3, { more: { BEHAVIOUR: `exit ${dead}` } });
      const ranks = await startJoiningRanks('join-and-sum.ts', variables).finished;
      expect(ranks[dead]!.status).toBe(7);
      const survivors = ranks.toSpliced(dead, 1);
      for (const { stderr, status } of survivors) {
        expect(stderr).toMatch(new RegExp(`rank ${dead} \\(|rank ${dead}, which holds it`));
        expect(status).toBe(1);
      }
      return 1000 * (Math.max(...survivors.map(({ seconds }) => seconds)) - ranks[dead]!.seconds);
    });
  });

  it('misses the heartbeat of a stopped rank at its limit', { tags: ['whole'] }, async () => {
    const variables = await makeVariables(2, { more: { BEHAVIOUR: 'stop 1', HEARTBEAT_MS: '1500' } });
    const started = startJoiningRanks('join-and-sum.ts', variables);
    const [first] = await Promise.all([
      started.finished.then((ranks) => ranks[0]!),
      until(() => started.children[0]!.exitCode !== null).then(() => started.children[1]!.kill('SIGKILL')),
    ]);
    expect(first.stderr).toContain('error[MTL_HEARTBEAT]');
    expect(first.stderr).toMatch(/rank 1 .* silent for .*limit 1\.5 s/);
    expect(first.status).toBe(1);
  });

  it('goes on while strangers throw garbage at the store', async () => {
    // rank 1 starts when rank 0 has received garbage for a while
    const variables = await makeVariables(2);
    const first = startJoiningRanks('join-and-sum.ts', [variables[0]!]);
    const port = Number(variables[0]!.MTL_STORE_PORT);
    let numClosed = 0;
    const parts = [
      'GET / HTTP/1.1\r\n\r\n',
      '\xff'.repeat(4000),
      '\0'.repeat(70_000),
      '\x19\0\0\0\x02'.padEnd(29, '\0'),
    ];
    const throwOnce = (index: number): void => {
      const socket = connect(port, '127.0.0.1', () => socket.write(Buffer.from(parts[index % 4]!, 'latin1')));
      socket.on('error', () => {});
      socket.on('data', () => {
        numClosed += 1; // the store's hello has arrived: it is listening
      });
    };
    let index = 0;
    const timer = setInterval(() => throwOnce(index++), 3);
    try {
      await until(() => numClosed > 100);
      const second = startJoiningRanks('join-and-sum.ts', [variables[1]!]);
      const [[zero], [one]] = await Promise.all([first.finished, second.finished]);
      expect(printed(one!)).toMatchObject({ rank: 1, sum: 3 });
      expect(JSON.parse(zero!.stdout)).toMatchObject({ rank: 0, sum: 3 });
      expect(zero!.stderr).toContain('warning[MTL_STORE_REFUSED]');
      // a flood of connections must not cause a flood of lines: five lines at once, then one every five
      // seconds
      expect(zero!.stderr.trim().split('\n').length).toBeLessThan(20);
      expect([zero!.status, one!.status]).toEqual([0, 0]);
    } finally {
      clearInterval(timer);
    }
  });

  it.each([
    ['a secret', { MTL_JOB_SECRET: '', ...underOpenMpi }, 'MTL_JOB_SECRET'],
    ['half of the variables', { WORLD_SIZE: '' }, 'MTL_LAUNCH_ENVIRONMENT'],
    [
      'an interface between hosts',
      { LOCAL_RANK: '0', LOCAL_WORLD_SIZE: '1', MASTER_ADDR: '10.0.0.1', MTL_SOCKET_INTERFACE: '' },
      glooProblem() === undefined ? 'MTL_SOCKET_INTERFACE' : 'MTL_GLOO_LIBRARY',
    ],
  ])('asks for %s before it waits for anybody', async (_, more, code) => {
    const [variables] = await makeVariables(2, { more });
    const [rank] = await startJoiningRanks('join-and-sum.ts', [variables!]).finished;
    expect(rank!.stderr).toContain(`error[${code}]`);
    expect(rank!.stderr).toContain('remedy:');
    expect(rank!.status).toBe(2);
  });

  it('names rank 0 when it is the one that never comes', async () => {
    const [rank] = await waitsForRank0;
    expect(rank!.stderr).toMatch(
      /error\[MTL_TIMEOUT\]: rank 0, which holds the store of the job, never came: rank 1 waited [67]\.\d s; /,
    );
    expect(rank!.stderr).toMatch(
      /^rank 1 has waited \d+ s for rank 0, which holds the store of the job: 127\.0\.0\.1, port \d+: /,
    );
    expect(rank!.status).toBe(1);
  });
});
