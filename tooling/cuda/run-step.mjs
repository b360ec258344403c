import { spawn } from 'node:child_process';

/** The milliseconds that a program may take to end after SIGTERM. */
const graceMs = 10_000;

/**
 * Runs a step, { command, args, cwd, env, minutes, problem }. `env` is added to the environment of this
 * process. The output goes to the terminal and to `log`.
 * @returns the exit status; or the signal that ended the step; or 'time limit' if the step took more than
 *   `minutes`, after which it and its children are ended; or 127 if the step could not be started or has a
 *   `problem`, which is the reason why it cannot run
 */
export function runStep({ command, args, cwd, env, minutes, problem }, log) {
  const write = (chunk) => {
    process.stdout.write(chunk);
    log.write(chunk);
  };
  if (problem !== undefined) {
    write(`${problem}\n`);
    return Promise.resolve(127);
  }
  return new Promise((done) => {
    // the step has its own process group, so that its children end with it
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, detached: true });
    const end = (signal) => {
      try {
        process.kill(-child.pid, signal);
      } catch (error) {
        if (error.code !== 'ESRCH') throw error;
      }
    };
    const interrupted = (signal) => {
      end(signal);
      process.exit(1);
    };
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, interrupted);
    let isLate = false;
    const timers = [
      setTimeout(() => {
        isLate = true;
        write(`ended: it took longer than ${Number(minutes.toPrecision(2))} minutes\n`);
        end('SIGTERM');
        timers.push(setTimeout(() => end('SIGKILL'), graceMs));
      }, minutes * 60_000),
    ];
    const finish = (status) => {
      for (const timer of timers) clearTimeout(timer);
      for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, interrupted);
      done(isLate ? 'time limit' : status);
    };
    for (const stream of [child.stdout, child.stderr]) stream.on('data', write);
    child.on('error', (error) => {
      write(`${error.message}\n`);
      finish(127);
    });
    child.on('close', (status, signal) => finish(status ?? signal));
  });
}
