import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '@mtl/tooling/free-port';
import { reportEngine } from '@mtl/tooling/report-engine';
import { rankModule, workspaceFlags } from '@mtl/tooling/typescript-threads';

export interface RunProcessesOptions {
  readonly worldSize: number;
  /**
   * URL of a module. Its default export, (world, argument) => result, runs in every process; argument and
   * result must be JSON.
   */
  readonly module: URL;
  readonly argument: unknown;
  /** The engine of collectives. `gloo`: every process reports a different host. Default: shared memory. */
  readonly engine?: 'local' | 'gloo';
  /** The command that runs a rank's program; default none, the program itself. */
  readonly choosePrefix?: (rank: number) => readonly string[];
}

/**
 * Timeout of tests and hooks that run processes: longer than the limit of `runProcesses`, on a busy machine.
 */
export const processTestMs = 240_000;

/** The task of a process, as JSON in a file. */
export interface ProcessOrder {
  readonly module: string;
  readonly argument: unknown;
  readonly engine: 'local' | 'gloo';
  readonly worldSize: number;
  readonly port: number;
}

/** Runs ranks as separate processes, over a native engine; returns their results by rank. */
export async function runProcesses<Result>(options: RunProcessesOptions): Promise<Result[]> {
  const { worldSize, module, argument, engine = 'local', choosePrefix = () => [] } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-processes-'));
  const order: ProcessOrder = {
    module: rankModule(module).href,
    argument,
    engine,
    worldSize,
    port: await freePort(),
  };
  const program = fileURLToPath(rankModule(new URL('../ranks/rank-process.ts', import.meta.url)));
  const orderPath = join(directory, 'order.json');
  writeFileSync(orderPath, JSON.stringify(order));
  try {
    return await Promise.all(
      Array.from({ length: worldSize }, async (_, rank) => {
        const resultPath = join(directory, `result-${rank}.json`);
        // the time-out of communication, a minute, ends a rank that hangs; this handles all other cases
        const limits = {
          timeout: processTestMs - 10_000,
          killSignal: 'SIGKILL' as const,
          maxBuffer: 1 << 26,
        };
        const words = [process.execPath, ...workspaceFlags, '--expose-gc', program];
        const [command, ...rest] = [...choosePrefix(rank), ...words] as [string, ...string[]];
        await promisify(execFile)(command, [...rest, String(rank), orderPath, resultPath], {
          ...limits,
          env: {
            ...process.env,
            MTL_JOB_SECRET: 'the secret of a test',
            MTL_SOCKET_INTERFACE: '127.0.0.1',
          },
        });
        const { used, result } = JSON.parse(readFileSync(resultPath, 'utf8')) as {
          used: string;
          result: Result;
        };
        if (worldSize > 1) reportEngine(used);
        return result;
      }),
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
