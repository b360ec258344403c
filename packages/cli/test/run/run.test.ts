import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { freePort } from '@mtl/tooling/free-port';
import { until } from '@mtl/tooling/until';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { mtlCommand } from '../support/mtl-command.js';
import { runMtlHere } from '../support/run-mtl-here.js';
import { isRunning, printedRanks, rankProgram, startProcess } from '../support/start-process.js';
import { testDirectory } from '../support/test-directory.js';

const run = (...words: string[]) => startProcess([...mtlCommand, 'run', ...words]);
/** A job that is refused before it starts anything, in this process. */
const refused = (...words: string[]) => runMtlHere('run', ...words);
const two = ['--nproc-per-node', '2'];

/** The processes of a `wait` job, when all have started. */
async function waitingRanks(file: string, count: number): Promise<number[]> {
  const paths = Array.from({ length: count }, (_, rank) => `${file}.${rank}`);
  await until(() => paths.every((path) => existsSync(path) && readFileSync(path, 'utf8') !== ''));
  return paths.map((path) => Number(readFileSync(path, 'utf8')));
}

describe('mtl run', () => {
  it('starts ranks that find each other, one thread share each, with prefixed lines', async () => {
    const { status, stdout, stderr } = await run('--nproc_per_node=4', rankProgram).finished;
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(printedRanks(stdout)).toMatchObject(
      [0, 1, 2, 3].map((rank) => ({
        rank,
        size: 4,
        engine: 'local',
        sum: 10,
        launcher: 'mtl',
        localRank: rank,
      })),
    );
    const prefixed = stdout.trim().split('\n');
    expect(prefixed.every((line) => line.startsWith(`[${JSON.parse(line.slice(4)).rank}] {`))).toBe(true);
  });

  it('names the flag of a port that is taken, and what to do', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { status, stderr } = await refused('--master-port', String(port), rankProgram);
    expect(stderr).toMatch(
      new RegExp(
        `^error\\[MTL_STORE_ADDRESS\\]: .*port ${port}: Address already in use.*\\n {2}remedy: leave --master-port out`,
      ),
    );
    expect(status).toBe(2);
  });

  it('passes the flags of the program as they are', async () => {
    const directory = testDirectory();
    const script = join(directory, 'print.mjs');
    writeFileSync(script, 'console.log(JSON.stringify(process.argv.slice(2)));\n');
    const flags = ['--my_flag', '--nnodes', '-x', '--', 'rest'];
    for (const words of [
      [script, ...flags],
      [script, '--', ...flags],
    ]) {
      const { stdout, stderr } = await run(...words).finished;
      expect(stderr).toBe('');
      expect(JSON.parse(stdout.slice(4))).toEqual(flags);
    }
  });

  it('runs the command of a directory with a package.json', { tags: ['whole'] }, async () => {
    const directory = join(testDirectory(), 'app');
    mkdirSync(directory);
    writeFileSync(
      join(directory, 'package.json'),
      '{"name": "@a/app", "bin": {"app": "./main.js", "other": "./x.js"}}',
    );
    const missing = await run(directory).finished;
    expect(missing.stderr).toContain('error[MTL_PROGRAM]');
    expect(missing.stderr).toContain('npm run build');
    expect(missing.status).toBe(2);
    writeFileSync(join(directory, 'main.js'), 'console.log("here");\n');
    expect((await run(directory).finished).stdout).toBe('[0] here\n');
  });

  it('runs a JavaScript command on the PATH', { tags: ['whole'] }, async () => {
    const directory = testDirectory();
    const script = join(directory, 'own.mjs');
    writeFileSync(script, 'console.log("own");\n');
    symlinkSync(script, join(directory, 'own-train'));
    writeFileSync(join(directory, 'other-train'), '#!/bin/sh\n');
    const path = process.env.PATH;
    process.env.PATH = `${directory}:${path}`;
    onTestFinished(() => {
      process.env.PATH = path;
    });
    expect((await run('own-train').finished).stdout).toBe('[0] own\n');
    const { status, stderr } = await run('other-train').finished;
    expect(stderr).toContain('error[MTL_PROGRAM]: program other-train not found');
    expect(status).toBe(2);
  });

  it.each([
    ['its exit code', ['exit', '1'], 'rank 1 ended with exit code 7'],
    [
      'its last error',
      ['throw', '0'],
      'rank 0 ended with exit code 1: error[MTL_UNEXPECTED]: the loss is not a number',
    ],
  ])('ends all when one fails, and names it with %s', async (_, behaviour, message) => {
    const { status, stdout, stderr } = await run(...two, rankProgram, ...behaviour).finished;
    expect(stderr).toContain(`error[MTL_RANK_FAILED]: ${message}`);
    expect(status).toBe(1);
    for (const { pid } of printedRanks(stdout)) expect(isRunning(pid as number)).toBe(false);
  });

  it.each([
    ['a stopped rank, which its silence betrays', '1'],
    ['ranks that are all stopped, so that none can say it', 'all'],
  ])('ends %s, within the limit and not after the grace period', { tags: ['whole'] }, async (_, whose) => {
    const limits = ['--heartbeat-limit', '2', '--grace-period', '80'];
    const { status, stdout, stderr } = await run(...two, ...limits, rankProgram, 'stop', whose).finished;
    expect(stderr).toMatch(
      /error\[MTL_RANK_FAILED\]: rank \d failed: rank \d .* has been silent for .* \(limit 2\.0 s\)/,
    );
    if (whose === '1') expect(stderr).toContain('rank 1 failed: rank 1 ');
    expect(status).toBe(1);
    for (const { pid } of printedRanks(stdout)) expect(isRunning(pid as number)).toBe(false);
  });

  it('starts all again after a failure, up to --max-restarts', { tags: ['whole'] }, async () => {
    const again = await run(...two, '--max-restarts', '2', rankProgram, 'once', '1').finished;
    expect(printedRanks(again.stdout)).toMatchObject(
      [0, 1].flatMap((restartCount) => [0, 1].map((rank) => ({ rank, restartCount, sum: 3 }))),
    );
    expect(again.stderr).toContain('warning[MTL_RESTART]: rank 1 ended with signal SIGKILL; restart 1 of 2');
    expect(again.status).toBe(0);
    const never = await run(...two, '--max-restarts', '1', rankProgram, 'exit', '0').finished;
    expect(never.stderr).toContain(
      'error[MTL_RANK_FAILED]: rank 0 ended with exit code 7 (after 1 restarts)',
    );
    expect(never.status).toBe(1);
  });

  it('does not repeat wrong input, and passes its exit status on', async () => {
    const { status, stderr } = await run(...two, '--max-restarts', '3', rankProgram, 'configuration', '0')
      .finished;
    expect(stderr).not.toContain('MTL_RESTART');
    expect(status).toBe(2);
  });

  it('reports wrong input that every rank finds once, with the message of the program', async () => {
    const script = join(testDirectory(), 'wrong.mjs');
    const error =
      'error[MTL_FLAG_UNKNOWN]: unknown flag --num-layer; expected --num-layers\n  remedy: --help\n';
    writeFileSync(script, `process.stderr.write(${JSON.stringify(error)}, () => process.exit(2));\n`);
    const { status, stdout, stderr } = await run('--nproc-per-node', '3', script).finished;
    expect(stderr).toBe(error);
    expect(stdout).toBe('');
    expect(status).toBe(2);
  });

  it('passes SIGTERM on to all ranks', async () => {
    const file = join(testDirectory(), 'pid');
    const { child, finished } = run(...two, rankProgram, 'wait', 'hearing', file);
    await waitingRanks(file, 2);
    child.kill('SIGTERM');
    const { stdout } = await finished;
    for (const rank of [0, 1]) expect(stdout).toContain(`[${rank}] rank ${rank} got SIGTERM`);
  });

  it('ends all ranks with a signal when its output is no longer read', async () => {
    const directory = testDirectory();
    const script = join(directory, 'talk.mjs');
    writeFileSync(
      script,
      `import { writeFileSync } from 'node:fs';
const { RANK } = process.env;
process.on('SIGHUP', () => {
  writeFileSync('${directory}/' + RANK, 'was told');
  process.exit(0);
});
setInterval(() => console.log('rank ' + RANK), 5);\n`,
    );
    const { child, finished } = run(...two, script);
    onTestFinished(() => void child.kill('SIGKILL'));
    let output = '';
    child.stdout!.on('data', (text: string) => {
      output += text;
      // both have their handler by now
      if (output.includes('[0] rank 0') && output.includes('[1] rank 1')) child.stdout!.destroy();
    });
    const { status, stderr } = await finished;
    expect(stderr).toBe('');
    expect(status).toBe(0);
    for (const rank of ['0', '1']) expect(readFileSync(join(directory, rank), 'utf8')).toBe('was told');
  });

  it('runs its own commands', async () => {
    const { status, stdout } = await run(...two, 'mtl', '--', 'schedule', '--help').finished;
    expect(status).toBe(0);
    expect(stdout).toContain('[1] Usage: mtl schedule');
  });

  it('ends at once at the second signal, whatever ranks do about it', async () => {
    const file = join(testDirectory(), 'pid');
    const { child, finished } = run(...two, rankProgram, 'wait', 'deaf', file);
    const pids = await waitingRanks(file, 2);
    let numHeard = 0;
    child.stdout?.on('data', (text: string) => {
      numHeard += text.split('got SIGTERM').length - 1;
    });
    child.kill('SIGTERM');
    await until(() => numHeard === 2);
    expect(pids.every(isRunning)).toBe(true);
    child.kill('SIGTERM');
    const { status } = await finished;
    expect(status).toBe(1);
    expect(pids.some(isRunning)).toBe(false);
  });

  // a program that never joins: neither the store nor a watchdog could end it
  it('leaves no process behind when it is killed', async () => {
    const file = join(testDirectory(), 'pid');
    const script = `${file}.mjs`;
    writeFileSync(
      script,
      `import { writeFileSync } from 'node:fs';
      process.on('SIGTERM', () => {});
      writeFileSync(process.argv[2] + '.' + process.env.RANK, String(process.pid));
      setInterval(() => {}, 1000);\n`,
    );
    const { child } = run(...two, script, file);
    const pids = await waitingRanks(file, 2);
    onTestFinished(() => {
      for (const pid of pids.filter(isRunning)) process.kill(pid, 'SIGKILL');
    });
    expect(pids.every(isRunning)).toBe(true);
    child.kill('SIGKILL');
    await until(() => !pids.some(isRunning));
  });

  it('asks for a secret that several hosts have in common', async () => {
    vi.stubEnv('MTL_JOB_SECRET', undefined);
    onTestFinished(() => void vi.unstubAllEnvs());
    const without = await refused('--nnodes', '2', '--master-addr', '127.0.0.1', rankProgram);
    expect(without.stderr).toContain('error[MTL_JOB_SECRET]');
    expect(without.status).toBe(2);
  });

  it('warns that a store listens on every interface', async () => {
    // another form of 127.0.0.1, which is looked up like a name
    const port = String(await freePort());
    const hosts = ['--nnodes', '2', '--master-addr', '127.1', '--master-port', port, '--join-timeout', '0.1'];
    const secret = { MTL_JOB_SECRET: 'a secret of sixteen bytes' };
    const { stderr } = await startProcess([...mtlCommand, 'run', ...hosts, rankProgram], secret).finished;
    expect(stderr).toContain('warning[MTL_STORE_ADDRESS]: --master-addr 127.1 is a name, so that the store');
    expect(stderr).toContain('error[MTL_TIMEOUT]');
  });

  it.each([
    ['0', /^host 0 has waited \d+ s for host 1 \(ranks 2 to 3\)$/m],
    ['1', /^host 1 has waited \d+ s for host 0: 127\.0\.0\.1, port \d+: Connection refused$/m],
  ])('says on host %s for whom it waits', { tags: ['whole'] }, async (host, notice) => {
    const place = ['--nnodes', '2', '--node-rank', host, '--master-addr', '127.0.0.1'];
    const times = ['--master-port', String(await freePort()), '--join-timeout', '7'];
    const secret = { MTL_JOB_SECRET: 'a secret of sixteen bytes' };
    const words = [...mtlCommand, 'run', ...two, ...place, ...times, rankProgram];
    const { stderr } = await startProcess(words, secret).finished;
    expect(stderr).toMatch(notice);
    expect(stderr).toContain('error[MTL_TIMEOUT]');
  });

  it.each([
    ['--nproc-per-node', '0'],
    ['--nproc-per-node', 'gpu'],
    ['--node-rank', '1'],
    ['--master-port', '70000'],
    ['--nnodes', '2'],
    ['--max-restart', '1'],
  ])('refuses %s %s', async (...flags) => {
    const { status, stderr } = await refused(...flags, rankProgram);
    expect(stderr).toMatch(/^error\[MTL_FLAG_/);
    expect(status).toBe(2);
  });

  it.each(['nowhere.mjs', 'README.md', 'src'])('refuses the program %s', async (program) => {
    const { status, stderr } = await refused(program);
    expect(stderr).toContain('error[MTL_PROGRAM]');
    expect(status).toBe(2);
  });
});
