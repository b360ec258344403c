import { formatError, MtlError } from '@mtl/errors';

/**
 * Ends this process when its output can no longer be written: with `exitCode` when its reader has gone away
 * (`| head`, a terminal that was closed), else with 1 and an error. Who listens to errors of the same stream
 * at that moment, as a training run or a launcher does, ends in its own way instead.
 */
export function endWithoutOutput({ exitCode }: { readonly exitCode: number }): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (stream.listenerCount('error') > 1) return;
      if (error.code === 'EPIPE' || error.code === 'EIO') process.exit(exitCode);
      if (stream === process.stdout) {
        const lost = new MtlError('MTL_OUTPUT', `standard output cannot be written: ${error.message}`, {
          remedy: 'free space where it goes, or send it elsewhere',
        });
        process.stderr.write(`${formatError(lost)}\n`);
      }
      process.exit(1);
    });
  }
}
