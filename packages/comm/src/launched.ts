import { isMainThread } from 'node:worker_threads';
import { callNative, loadAddon } from './native/addon.js';

/**
 * A module that `mtl run` makes every process import before its program (`--import @mtl/comm/launched`). It
 * makes the process end when its launcher ends, even if the launcher is killed and can no longer do anything.
 */

const launcher = Number(process.env.MTL_LAUNCHER_PID);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

// worker threads import this module as well
if (isMainThread && Number.isInteger(launcher)) {
  if (process.ppid === launcher) callNative(() => loadAddon({ usesTensors: false }).endWithParent(launcher));
  // another parent: this process was started by the program itself, or the launcher ended before this line
  else if (!isAlive(launcher)) process.kill(process.pid, 'SIGKILL');
}
