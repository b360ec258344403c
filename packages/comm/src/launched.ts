import { isMainThread } from 'node:worker_threads';
import { callNative, loadAddon } from './native/addon.js';

/**
 * A module that `mtl run` has every process import before its program (`--import @mtl/comm/launched`): the
 * process ends with the launcher, also when that is killed and can do nothing about it any more.
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

// threads import this as well
if (isMainThread && Number.isInteger(launcher)) {
  if (process.ppid === launcher) callNative(() => loadAddon({ usesTensors: false }).endWithParent(launcher));
  // a process that the program starts in turn has another parent; else the launcher has ended before this
  // line
  else if (!isAlive(launcher)) process.kill(process.pid, 'SIGKILL');
}
