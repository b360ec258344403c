import { vi } from 'vitest';
import { runMtl } from '../../src/index.js';

/** Runs a command line of `mtl` in this process: what it prints is returned, and not printed. */
export async function runMtlHere(
  ...argv: readonly string[]
): Promise<{ readonly status: number; readonly stdout: string; readonly stderr: string }> {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      written[stream] += String(text);
      return true;
    }),
  );
  try {
    return { status: await runMtl(argv), ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
