import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { tokenizerFilesIn } from './tokenizer-files-in.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-files-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function put(name: string, target?: string): string {
  const path = join(root, name);
  mkdirSync(dirname(path), { recursive: true });
  if (target === undefined) writeFileSync(path, '');
  else symlinkSync(target, path);
  return path;
}

it('finds the forms of tokenizers, and the templates in their folder', () => {
  const models = ['tokenizer.model', 'tokenizer.model.v3', 'spiece.model', 'sentencepiece.bpe.model'];
  const templates = ['rag', 'tool_use'].map((name) => `additional_chat_templates/${name}.jinja`);
  for (const name of [...models, ...templates]) put(name);
  put('weights.model');
  put('additional_chat_templates/README.md');
  put('additional_chat_templates/folder.jinja/other.jinja');
  expect(tokenizerFilesIn(root)).toEqual(
    Object.fromEntries([...models, ...templates].map((name) => [name, join(root, name)])),
  );
  expect(tokenizerFilesIn(join(root, 'nowhere'))).toEqual({});
});

it('takes links to files of the directory, and refuses other ones', () => {
  put('model/other.jinja');
  put('private.txt');
  const template = put('model/additional_chat_templates/tool_use.jinja', '../other.jinja');
  const name = 'additional_chat_templates/tool_use.jinja';
  expect(tokenizerFilesIn(join(root, 'model'))).toEqual({ [name]: template });
  rmSync(template);
  put('model/additional_chat_templates/tool_use.jinja', '../../private.txt');
  expect(() => tokenizerFilesIn(join(root, 'model'))).toThrow(
    expect.objectContaining({ code: 'MTL_HUGGING_FACE_CONFIG', message: expect.stringContaining(template) }),
  );
  // the folder is a link to a path outside of the model's directory
  rmSync(join(root, 'model/additional_chat_templates'), { recursive: true });
  put('elsewhere/tool_use.jinja');
  put('model/additional_chat_templates', '../elsewhere');
  expect(() => tokenizerFilesIn(join(root, 'model'))).toThrow(/is a link to/);
});

it('follows the links of the cache of huggingface_hub', () => {
  put('models--a--b/blobs/1234');
  const name = 'additional_chat_templates/tool_use.jinja';
  const path = put(`models--a--b/snapshots/5678/${name}`, '../../../blobs/1234');
  expect(tokenizerFilesIn(join(root, 'models--a--b/snapshots/5678'))).toEqual({ [name]: path });
  put('models--c--d/blobs/1234');
  rmSync(path);
  put(`models--a--b/snapshots/5678/${name}`, '../../../../models--c--d/blobs/1234');
  expect(() => tokenizerFilesIn(join(root, 'models--a--b/snapshots/5678'))).toThrow(/is a link to/);
});
