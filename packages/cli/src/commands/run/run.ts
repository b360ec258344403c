import { randomBytes, randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { readJobSecret, readJoinTimeout } from '@mtl/comm/launcher';
import { ConfigurationError } from '@mtl/errors';
import { type Command, Option } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { countOption, numberOption } from '../../command-line/option-values.js';
import { summaries } from '../summaries.js';
import type { LaunchOptions } from './launcher/launch-options.js';
import { Launcher } from './launcher/launcher.js';
import { resolveProgram } from './launcher/resolve-program.js';

interface RunFlags {
  readonly nprocPerNode: number;
  readonly nnodes: number;
  readonly nodeRank: number;
  readonly masterAddr?: string;
  readonly masterPort?: number;
  readonly maxRestarts: number;
  readonly joinTimeout?: number;
  readonly heartbeatLimit: number;
  readonly gracePeriod: number;
}

const loopback = '127.0.0.1';
const defaultPort = 29_500; // torchrun's

const notes = `
Each process gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR,
MASTER_PORT), MTL_JOB_SECRET and MTL_RESTART_COUNT. When one fails, all end; with --max-restarts all start again, and a
program that sees MTL_RESTART_COUNT above 0 resumes from its newest complete checkpoint. Wrong input and MTL_NOT_FINITE
end the job at once.

Examples:
  mtl run --nproc-per-node 2 gpt -- --train-iters 100
  mtl run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --nproc-per-node 8 train.mts   (on the second host: --node-rank 1)`;

/** Creates the command `mtl run`, which starts the processes of a job on this host. */
export function runCommand(): Command {
  return newCommand('run', summaries.run)
    .argument(
      '<program>',
      'The program: gpt or bert (to train one), a file in JavaScript or TypeScript, a directory with a package.json, or a JavaScript command on the PATH.',
    )
    .argument('[args...]', 'Arguments of the program, after --.')
    .passThroughOptions()
    .addOption(
      new Option('--nproc-per-node <n>', 'Processes on this host: a number, cpu or auto (one per core).')
        .argParser(readNumProcesses)
        .default(1),
    )
    .addOption(countOption('--nnodes <n>', 'Hosts.').default(1))
    .addOption(countOption('--node-rank <n>', 'Index of this host.', { least: 0 }).default(0))
    .addOption(
      // an IPv6 address may have brackets, as in URLs
      new Option('--master-addr <address>', 'An address of host 0 that the others reach.').argParser(
        withoutBrackets,
      ),
    )
    .addOption(countOption('--master-port <n>', 'A free port there. [any on one host, else 29500]'))
    .addOption(
      countOption('--max-restarts <n>', 'How often all processes are restarted after a failure.', {
        least: 0,
      }).default(0),
    )
    .addOption(
      numberOption('--join-timeout <s>', 'Seconds that hosts and processes wait for each other. [300]', {
        above: 0,
      }),
    )
    .addOption(
      numberOption(
        '--heartbeat-limit <s>',
        'Seconds that a process may be silent (stopped, or its host lost): the job ends a second or two later.',
        { least: 1 },
      ).default(15),
    )
    .addOption(
      numberOption(
        '--grace-period <s>',
        'Seconds to end after a failure, for processes that are not stopped.',
        { least: 0 },
      ).default(10),
    )
    .addHelpText('after', notes)
    .requires(({ nnodes, masterAddr }: RunFlags) =>
      nnodes > 1 && masterAddr === undefined
        ? [{ name: '--master-addr', usage: '--master-addr ADDRESS' }]
        : [],
    )
    .action(run);
}

/** Removes the brackets around an IPv6 address; returns other addresses unchanged. */
export const withoutBrackets = (address: string): string => /^\[(.*)\]$/.exec(address)?.[1] ?? address;

async function run(program: string, args: readonly string[], flags: RunFlags): Promise<void> {
  await new Launcher(launchOptions(program, args, flags)).run();
}

function launchOptions(program: string, args: readonly string[], flags: RunFlags): LaunchOptions {
  const { nprocPerNode, nnodes, nodeRank, masterAddr, masterPort } = flags;
  if (nodeRank >= nnodes) {
    throw new ConfigurationError('MTL_FLAG_VALUE', `--node-rank ${nodeRank} with --nnodes ${nnodes}`, {
      expected: `0 to ${nnodes - 1}`,
    });
  }
  if (masterPort !== undefined && masterPort > 65_535) {
    throw new ConfigurationError('MTL_FLAG_VALUE', `--master-port ${masterPort} cannot be used`, {
      expected: '1 to 65535',
    });
  }
  return {
    numProcessesPerNode: nprocPerNode,
    numNodes: nnodes,
    nodeRank,
    masterAddress: nnodes === 1 ? loopback : masterAddr!,
    masterPort: masterPort ?? (nnodes === 1 ? 0 : defaultPort),
    maxRestarts: flags.maxRestarts,
    heartbeatLimitMs: flags.heartbeatLimit * 1000,
    joinTimeoutMs: flags.joinTimeout === undefined ? readJoinTimeout(process.env) : flags.joinTimeout * 1000,
    gracePeriodMs: flags.gracePeriod * 1000,
    secret: chooseSecret(nnodes),
    jobId: randomUUID(),
    startedMs: Date.now(),
    script: resolveProgram(program),
    args: args[0] === '--' ? args.slice(1) : args,
  };
}

/**
 * Returns the secret of the job. For a job on one host, a new secret is generated. Several hosts must use the
 * same secret, so the user sets it.
 */
function chooseSecret(numNodes: number): string {
  const { MTL_JOB_SECRET: secret, MTL_JOB_SECRET_FILE: file } = process.env;
  return numNodes === 1 && !secret && !file ? randomBytes(32).toString('hex') : readJobSecret(process.env);
}

function readNumProcesses(value: string): number {
  if (value === 'auto' || value === 'cpu') return availableParallelism();
  if (/^\d+$/.test(value) && Number(value) >= 1 && Number(value) <= 1024) return Number(value);
  throw new ConfigurationError('MTL_FLAG_VALUE', `--nproc-per-node ${value} cannot be used`, {
    expected: 'a whole number from 1 to 1024, cpu or auto',
  });
}
