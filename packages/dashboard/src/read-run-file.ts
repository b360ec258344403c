import { openRunFile } from './open-run-file.js';

/** The text of a file of a run; undefined where there is none, or where it has more than `mostBytes`. */
export async function readRunFile(
  path: string,
  { mostBytes }: { readonly mostBytes: number },
): Promise<string | undefined> {
  const file = await openRunFile(path);
  try {
    if (file === undefined || (await file.stat()).size > mostBytes) return undefined;
    return await file.readFile('utf8');
  } finally {
    await file?.close();
  }
}
