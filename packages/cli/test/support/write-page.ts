import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformersJsFolder } from '@mtl/tooling/ask-transformers-js';
import { expect } from 'vitest';
import { runMtlHere } from './run-mtl-here.js';
import { runMtlIn } from './run-mtl-in.js';

/** Writes the page of a model in fp32, where transformers.js is installed, and returns its folder. */
export async function writePage(folder: string, ...model: readonly string[]): Promise<string> {
  const words = ['convert', ...model, '--to', 'page', folder, '--dtype', 'fp32'];
  const { status, stderr } = await runMtlIn(words, { cwd: transformersJsFolder });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return folder;
}

/** Messages by their roles, then `the` for the answer. */
const template =
  "{% for m in messages %}{{ m.role + ': ' + m.content + ' ' }}{% endfor %}{% if add_generation_prompt %}{{ 'the ' }}{% endif %}";

/** Writes a run as a directory of the transformers library with a chat template. */
export async function writeChatModel(model: string, run: string): Promise<void> {
  const { status, stderr } = await runMtlHere('convert', '--load', run, '--save-hf', model);
  expect({ status, stderr }).toMatchObject({ status: 0 });
  writeFileSync(join(model, 'chat_template.jinja'), template);
}
