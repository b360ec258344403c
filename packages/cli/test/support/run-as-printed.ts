import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { workspaceFlags } from '@mtl/tooling/typescript-threads';

const program = fileURLToPath(new URL('../programs/train.mjs', import.meta.url));

export interface PrintedRun {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Gives a printed command to a shell. Only its `npm run gpt-train --` is replaced, which works in a checkout
 * and nowhere else: by the same program from its sources.
 */
export function runAsPrinted(command: string, { cwd }: { readonly cwd: string }): Promise<PrintedRun> {
  const [npm, model] = /^npm run (gpt|bert)-train --(?= )/.exec(command) ?? [];
  if (npm === undefined) throw new Error(`not a command that trains: ${command}`);
  const words = [process.execPath, ...workspaceFlags, program, model].map((word) => `'${word}'`);
  // exec: the shell becomes the program, and no process is left behind
  const script = `exec ${words.join(' ')}${command.slice(npm.length)}`;
  return new Promise((resolve) => {
    const child = execFile('sh', ['-c', script], { cwd }, (_, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    );
  });
}
