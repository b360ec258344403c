import { spawn } from 'node:child_process';

/** Milliseconds that a program has to end after SIGTERM. */
const graceMs = 10_000;

/**
 * Runs a step, { command, args, cwd, env, minutes }, `env` added to ours, with its output on the terminal and
 * in `log`.
 * @returns its exit status, the signal that ended it, 'time limit' after more than `minutes` (it and its
 *   children are then ended), or 127 where it could not be started, or where the step has a `problem`, the
 *   reason why it cannot run
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
    // a separate process group, so that its children end with it
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
