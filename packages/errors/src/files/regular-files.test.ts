import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  FileTooLargeError,
  fileProblem,
  IrregularFileError,
  openRegularFile,
  openRegularHandle,
  readHandleFully,
  readRegularFile,
  readRegularText,
} from './regular-files.js';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-files-'));
  path = join(directory, 'file');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** The two functions that open a file, by a description for test names. */
const ways = {
  'in the thread': async (name: string) => void openRegularFile(name),
  'by a handle': async (name: string) => await (await openRegularHandle(name)).close(),
};

describe.each(Object.entries(ways))('opening a file %s', (_, open) => {
  it('refuses at once what is not a regular file', async () => {
    // the FIFO has no writer, so opening it without special flags would wait forever
    execFileSync('mkfifo', [path]);
    await expect(open(path)).rejects.toThrow(new IrregularFileError('a FIFO'));
    await expect(open(directory)).rejects.toThrow(new IrregularFileError('a directory'));
    await expect(open('/dev/zero')).rejects.toThrow(new IrregularFileError('a device'));
    const server = createServer();
    const socket = join(directory, 'socket');
    await new Promise<void>((listening) => server.listen(socket, listening));
    await expect(open(socket)).rejects.toThrow(new IrregularFileError('a socket or a device'));
    await new Promise((closed) => server.close(closed));
  });

  it('has the error of the system, which is described', async () => {
    const error = await open(path).catch((one: unknown) => one);
    expect(error).toMatchObject({ code: 'ENOENT' });
    expect(fileProblem(error)).toBe('no such file');
    expect(fileProblem(new Error('EIO: i/o error'))).toBe('cannot be read (EIO: i/o error)');
    expect(fileProblem(new IrregularFileError('a FIFO'))).toBe('is a FIFO, not a regular file');
  });
});

describe('reading a file', () => {
  it('takes no more than the most bytes', async () => {
    writeFileSync(path, 'text');
    expect(readRegularFile(path, 4).toString()).toBe('text');
    expect(await readRegularText(path, 4)).toBe('text');
    expect(() => readRegularFile(path, 3)).toThrow(new FileTooLargeError(4));
    await expect(readRegularText(path, 3)).rejects.toThrow(new FileTooLargeError(4));
  });

  it('returns fewer bytes at the end of the file only', async () => {
    writeFileSync(path, 'text');
    await using handle = await openRegularHandle(path);
    const bytes = new Uint8Array(3);
    expect(await readHandleFully({ handle, bytes, position: 0 })).toBe(3);
    expect(Buffer.from(bytes).toString()).toBe('tex');
    expect(await readHandleFully({ handle, bytes, position: 2 })).toBe(2);
  });
});
