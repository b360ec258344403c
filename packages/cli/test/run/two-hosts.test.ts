import { join } from 'node:path';
import { glooProblem } from '@mtl/comm';
import { createNetworkHosts, type NetworkHosts, networkHostsProblem } from '@mtl/tooling/network-hosts';
import { until } from '@mtl/tooling/until';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mtlCommand } from '../support/mtl-command.js';
import {
  type FinishedProcess,
  isRunning,
  printedRanks,
  rankProgram,
  type StartedProcess,
  startProcess,
} from '../support/start-process.js';
import { testDirectory } from '../support/test-directory.js';

const cannot = glooProblem() !== undefined || networkHostsProblem() !== undefined;
/** On the second host. */
const culprit = 3;
const limits = { 'heartbeat-limit': 2, 'grace-period': 1, 'join-timeout': 30, 'max-restarts': 0 };

let network: NetworkHosts;
let hosts: StartedProcess[] = [];
let output = '';

interface HostOptions {
  readonly program?: readonly string[];
  readonly flags?: Partial<typeof limits>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts `mtl run` with two ranks on a host. */
function start(host: number, { program = ['loop'], flags = {}, env = {} }: HostOptions): StartedProcess {
  const place = ['--nnodes', '2', '--node-rank', String(host), '--master-addr', network.formatAddress(0)];
  const all = Object.entries({ ...limits, ...flags }).flatMap(([name, value]) => [
    `--${name}`,
    String(value),
  ]);
  const words = ['run', ...place, '--nproc-per-node', '2', ...all, rankProgram, ...program];
  const { socketInterface } = network;
  const variables = { MTL_JOB_SECRET: 'the secret of a test', MTL_SOCKET_INTERFACE: socketInterface };
  const started = startProcess([...network.choosePrefix(host), ...mtlCommand, ...words], {
    ...variables,
    ...env,
  });
  started.child.stdout?.on('data', (text: string) => {
    output += text;
  });
  hosts.push(started);
  return started;
}

const startBoth = (options: HostOptions): readonly StartedProcess[] =>
  [0, 1].map((host) => start(host, options));
const ends = (): Promise<FinishedProcess[]> => Promise.all(hosts.map(({ finished }) => finished));

/** The processes of all ranks, once they have communicated. */
async function pidsOfRanks(): Promise<number[]> {
  await until(() => output.split('\n').filter((line) => line.endsWith('}')).length >= 4);
  return printedRanks(output).map(({ pid }) => pid as number);
}

/**
 * Repeats a run in which the culprit fails until all other ranks have said so, three times at most: the
 * launcher gives them a second for it, which may be too short on a busy machine. Every error that they write
 * must name the culprit.
 */
async function expectSurvivorsToName(
  code: string,
  run: () => Promise<readonly FinishedProcess[]>,
): Promise<void> {
  let ranks: string[] = [];
  for (let number = 1; number <= 3 && ranks.length < 3; number++) {
    hosts = [];
    output = '';
    const errors = (await run()).flatMap(({ stderr }) =>
      stderr.split('\n').filter((line) => /^\[\d\] error\[/.test(line)),
    );
    for (const line of errors) {
      // group, operation, sequence number, waiting time, and who is to blame
      expect(line).toMatch(
        new RegExp(
          `^\\[(\\d)\\] error\\[${code}\\]: group world \\[0, 1, 2, 3\\], allReduce \\(collective \\d+\\), ` +
            `rank \\1 waited \\d+\\.\\d+ s: (.*: )?rank ${culprit} `,
        ),
      );
    }
    ranks = errors.map((line) => line[1]!).sort();
  }
  expect(ranks).toEqual(['0', '1', '2']);
}

/** Two ranks each on two hosts, started by `mtl run` on both, over Gloo. */
describe.skipIf(cannot)('mtl run on two hosts (libgloo-dev, iproute2, root)', () => {
  beforeEach(() => {
    network = createNetworkHosts();
    hosts = [];
    output = '';
  });

  afterEach(async () => {
    // what a test left running dies with its launcher
    for (const { child } of hosts) child.kill('SIGKILL');
    await ends();
    const pids = printedRanks(output).map(({ pid }) => pid as number);
    await until(() => !pids.some(isRunning));
    network.remove();
  });

  it('ends all at once when a rank is killed; all others name it', async () => {
    await expectSurvivorsToName('MTL_RANK_DIED', async () => {
      startBoth({});
      const pids = await pidsOfRanks();
      expect(printedRanks(output)).toMatchObject(
        [0, 1, 2, 3].map((rank) => ({ rank, engine: 'gloo+local', sum: 10 })),
      );
      process.kill(pids[culprit]!, 'SIGKILL');
      const finished = await ends();
      for (const { status, stderr } of finished) {
        expect(stderr).toContain(`error[MTL_RANK_FAILED]: rank ${culprit} ended with signal SIGKILL`);
        expect(status).toBe(1);
      }
      expect(pids.some(isRunning)).toBe(false);
      return finished;
    });
  });

  it.each([
    ['the silence of its heartbeat', 'MTL_HEARTBEAT', {}],
    [
      'the time-out of the operation',
      'MTL_TIMEOUT',
      { env: { TIMEOUT_MS: '1500' }, flags: { 'heartbeat-limit': 30 } },
    ],
  ])('ends a stopped rank, which %s betrays; all others name it', async (_, code, options) => {
    await expectSurvivorsToName(code, async () => {
      startBoth(options);
      const pids = await pidsOfRanks();
      process.kill(pids[culprit]!, 'SIGSTOP');
      const finished = await ends();
      for (const { status, stderr } of finished) {
        expect(stderr).toContain(`error[MTL_RANK_FAILED]: rank ${culprit} failed: `);
        expect(status).toBe(1);
      }
      expect(pids.some(isRunning)).toBe(false);
      return finished;
    });
  });

  it('names a host that never comes, with its ranks', async () => {
    const flags = { 'join-timeout': 2 };
    start(0, { flags });
    const [first] = await ends();
    expect(first!.stderr).toMatch(
      /^error\[MTL_TIMEOUT\]: host 0 waited \d+\.\d s for host 1 \(ranks 2 to 3\) of 2 hosts, which never came/,
    );
    expect(first!.status).toBe(1);
    start(1, { flags });
    const second = (await ends())[1]!;
    expect(second.stderr).toMatch(
      /^error\[MTL_TIMEOUT\]: host 0 never came: .* did not find the store of the job/,
    );
    expect(second.status).toBe(1);
  });

  it('hears a signal while it waits for a host', async () => {
    const { child, finished } = start(1, {});
    child.kill('SIGTERM');
    const { status, signal } = await finished;
    // before the command listens, the signal itself ends it
    expect(status === 1 || signal === 'SIGTERM').toBe(true);
  });

  it.each([
    ['a rank of the other host dies', 'once', '3', 'rank 3 ended with signal SIGKILL'],
    ['a rank of the other host dies before it has joined', 'early', '3', 'rank 3 ended with exit code 7'],
    ['a rank fails when the ranks of the other host are done', 'last', '0', 'rank 0 ended with exit code 7'],
  ])('starts all again on both when %s', async (_, behaviour, whose, message) => {
    startBoth({ program: [behaviour, whose, join(testDirectory(), 'pid')], flags: { 'max-restarts': 2 } });
    const finished = await ends();
    for (const { status, stderr } of finished) {
      expect(stderr).toContain(`warning[MTL_RESTART]: ${message}; restart 1 of 2 of all ranks`);
      expect(stderr).not.toContain('restart 2 of 2');
      expect(status).toBe(0);
    }
    const restarted = printedRanks(output).filter(({ restartCount }) => restartCount === 1);
    expect(restarted).toMatchObject([0, 1, 2, 3].map((rank) => ({ rank, sum: 10, engine: 'gloo+local' })));
  });

  it('ends on both with status 2 when a rank of one was given wrong input', async () => {
    startBoth({ program: ['configuration', String(culprit)], flags: { 'max-restarts': 3 } });
    for (const { status, stderr } of await ends()) {
      const error = `error[MTL_CHOSEN]: rank ${culprit}: a flag is wrong\n  remedy: pass another\n`;
      // once, and not what others saw of it
      expect(stderr).toBe(error);
      expect(stderr).not.toContain('MTL_RESTART');
      expect(status).toBe(2);
    }
  });

  it('refuses flags that differ between the hosts', async () => {
    start(0, {});
    start(1, { flags: { 'max-restarts': 1 } });
    for (const { status, stderr } of await ends()) {
      expect(stderr).toMatch(/^error\[MTL_FLAG_CONFLICT\]: --max-restarts is 0 on host 0 and 1 on host 1/);
      expect(status).toBe(2);
    }
  });

  it.each([0, 1])(
    'ends when the launcher of host %i is killed, since no launcher could restart its ranks',
    async (host) => {
      startBoth({ flags: { 'max-restarts': 3 } });
      const pids = await pidsOfRanks();
      hosts[host]!.child.kill('SIGKILL');
      const { status, stderr } = await hosts[1 - host]!.finished;
      expect(stderr).toMatch(new RegExp(`error\\[MTL_HOST_LOST\\]: .*the launcher of host ${host}`));
      expect(stderr).not.toContain('MTL_RESTART');
      expect(status).toBe(1);
      await until(() => !pids.some(isRunning));
    },
  );

  it('ends on both at the limit of the heartbeat when the cable is out', async () => {
    startBoth({ flags: { 'max-restarts': 3 } });
    const pids = await pidsOfRanks();
    network.cut();
    for (const { status, stderr } of await ends()) {
      expect(stderr).toMatch(/error\[MTL_HOST_LOST\]: .*silent for/);
      expect(status).toBe(1);
    }
    expect(pids.some(isRunning)).toBe(false);
  });
});
