import { isMainThread } from 'node:worker_threads';
import { callNative, loadAddon } from './native/addon.js';

/**
 * `mtl run` makes every process import this module before its program (`--import @mtl/comm/launched`). The
 * module ends the process when its launcher ends, even if the launcher is killed and cannot end its
 * processes.
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

// the check is needed because worker threads import this module as well
if (isMainThread && Number.isInteger(launcher)) {
  if (process.ppid === launcher) callNative(() => loadAddon({ usesTensors: false }).endWithParent(launcher));
  // the parent is not the launcher: either the program itself started this process, or the launcher has
  // already ended
  else if (!isAlive(launcher)) process.kill(process.pid, 'SIGKILL');
}
