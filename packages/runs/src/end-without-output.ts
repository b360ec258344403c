import type { WriteStream } from 'node:tty';
import { formatError, MtlError } from '@mtl/errors';

/** A listener to an output stream's errors that was added by `endWithoutOutput`. */
interface EndingListener {
  (error: NodeJS.ErrnoException): void;
  readonly [mark]: true;
}

// the symbol is global, because a bundled command contains its own copy of this file
const mark = Symbol.for('@mtl/runs/end-without-output');

/**
 * Ends this process when its output can no longer be written. The exit code is `exitCode` if the reader has
 * closed the stream, as happens with `| head` or when the terminal is closed. Otherwise it is 1, and an error
 * is printed. If the stream has further listeners to errors, such as a training run or a launcher, they end
 * the process themselves. If the function is called several times in a process, the last exit code counts: a
 * command calls it at its start, and the training program in the same process calls it again.
 */
export function endWithoutOutput({ exitCode }: { readonly exitCode: number }): void {
  for (const stream of [process.stdout, process.stderr]) {
    for (const listener of stream.listeners('error')) {
      if (mark in listener) stream.off('error', listener as EndingListener);
    }
    stream.on('error', endingListener(stream, exitCode));
  }
}

function endingListener(stream: WriteStream, exitCode: number): EndingListener {
  const end = (error: NodeJS.ErrnoException): void => {
    if (stream.listenerCount('error') > 1) return;
    if (error.code === 'EPIPE' || error.code === 'EIO') process.exit(exitCode);
    if (stream === process.stdout) {
      const lost = new MtlError('MTL_OUTPUT', `standard output cannot be written: ${error.message}`, {
        remedy: 'free space where it goes, or send it elsewhere',
      });
      process.stderr.write(`${formatError(lost)}\n`);
    }
    process.exit(1);
  };
  return Object.assign(end, { [mark]: true as const });
}
