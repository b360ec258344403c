import { isUtf8 } from 'node:buffer';
import { fileProblem, readRegularFile } from '../files/regular-files.js';
import { taskError } from './task-error.js';

/** The text of a task's file without its byte-order mark. Throws `MTL_DATA_TASK_FILE`. */
export function readTaskText(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readRegularFile(path);
  } catch (cause) {
    throw taskError({ kind: 'FILE', path, what: fileProblem(cause), cause });
  }
  if (!isUtf8(bytes)) {
    const remedy = 'get the file again, or convert it with iconv -t UTF-8';
    throw taskError({ kind: 'FILE', path, what: 'is not UTF-8', remedy });
  }
  const text = bytes.toString('utf8');
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}
