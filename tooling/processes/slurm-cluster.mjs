import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { commandPath } from './command-path.mjs';
import { freePort } from './free-port.mjs';
import { until } from './until.mjs';

const commands = ['srun', 'sbatch', 'sinfo', 'munged', 'slurmctld', 'slurmd'];

/**
 * Returns the reason why this machine cannot run a local Slurm cluster; undefined if it can.
 *
 * @returns {string | undefined}
 */
export function slurmProblem() {
  const missing = commands.filter((name) => commandPath(name) === undefined);
  return missing.length === 0 ? undefined : `not installed: ${missing.join(', ')}`;
}

/**
 * A Slurm cluster on this machine, with separate keys, ports and folders.
 *
 * @typedef {object} SlurmCluster
 * @property {Readonly<Record<string, string>>} env the environment variables for srun and sbatch
 * @property {() => Promise<void>} stop
 */

/**
 * Starts munged, slurmctld and slurmd in `directory`: one node with room for `numCpus` tasks.
 *
 * @param {string} directory
 * @param {{ readonly numCpus: number }} options
 * @returns {Promise<SlurmCluster>}
 */
export async function startSlurm(directory, { numCpus }) {
  const [controlPort, nodePort] = [await freePort(), await freePort()];
  // munged requires that its socket is in a folder that other users may enter but not write to
  chmodSync(directory, 0o755);
  for (const folder of ['munge', 'state', 'spool']) mkdirSync(join(directory, folder), { mode: 0o755 });
  const munge = (name) => join(directory, 'munge', name);
  writeFileSync(munge('key'), randomBytes(1024), { mode: 0o600 });
  const configuration = join(directory, 'slurm.conf');
  writeFileSync(
    configuration,
    slurmConf({ directory, socket: munge('socket'), controlPort, nodePort, numCpus }),
  );
  const env = { SLURM_CONF: configuration };
  const daemons = [];
  const start = (command, ...args) => {
    const log = openSync(join(directory, `${command}.out`), 'w');
    const path = `${process.env.PATH}:/usr/sbin:/sbin`;
    daemons.push(
      spawn(command, args, { env: { ...process.env, ...env, PATH: path }, stdio: ['ignore', log, log] }),
    );
    closeSync(log);
  };
  const stop = async () => {
    for (const daemon of daemons.toReversed()) {
      daemon.kill('SIGTERM');
      await until(() => daemon.exitCode !== null || daemon.signalCode !== null);
    }
  };
  try {
    const files = ['socket', 'pid', 'log', 'seed'].map(
      (name) =>
        `--${name === 'pid' || name === 'log' || name === 'seed' ? `${name}-file` : name}=${munge(name)}`,
    );
    start('munged', '--foreground', `--key-file=${munge('key')}`, ...files);
    await until(() => existsSync(munge('socket')));
    start('slurmctld', '-D', '-f', configuration);
    start('slurmd', '-D', '-f', configuration, '-N', 'localhost');
    await until(() => {
      const { stdout } = spawnSync('sinfo', ['--noheader', '--format=%T'], {
        env: { ...process.env, ...env },
        encoding: 'utf8',
      });
      return stdout?.trim() === 'idle';
    });
  } catch (error) {
    await stop();
    const said = ['munged', 'slurmctld', 'slurmd'].map((name) => {
      const path = join(directory, `${name}.out`);
      return existsSync(path)
        ? `${name}: ${readFileSync(path, 'utf8').slice(-2000)}`
        : `${name}: not started`;
    });
    throw new Error(`Slurm did not start\n${said.join('\n')}`, { cause: error });
  }
  return { env, stop };
}

function slurmConf({ directory, socket, controlPort, nodePort, numCpus }) {
  const user = userInfo().username;
  return `ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${controlPort}
SlurmdPort=${nodePort}
SlurmUser=${user}
SlurmdUser=${user}
AuthType=auth/munge
AuthInfo=socket=${socket}
CredType=cred/munge
StateSaveLocation=${join(directory, 'state')}
SlurmdSpoolDir=${join(directory, 'spool')}
SlurmctldPidFile=${join(directory, 'slurmctld.pid')}
SlurmdPidFile=${join(directory, 'slurmd.pid')}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
NodeName=localhost NodeAddr=127.0.0.1 CPUs=${numCpus} State=UNKNOWN
PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE State=UP
`;
}
