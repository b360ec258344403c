import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DataError } from '@mtl/errors';
import { isJsonObject } from '../files/is-json-object.js';
import { endOfText } from '../tokenizers/gpt2-vocabulary.js';
import { readJsonFile, readTextFile } from '../tokenizers/read-json-file.js';
import { tokenText } from '../tokenizers/token-text.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { tokenizerError } from '../tokenizers/tokenizer-error.js';
import type { TokenizerOptions } from '../tokenizers/tokenizer-options.js';
import { ChatTemplate } from './chat-template.js';

/** What of a tokenizer its chat template follows from. */
export type ChatTokenizer = Pick<Tokenizer, 'options' | 'specialIds' | 'eod' | 'decode'>;

/**
 * The chat template of a tokenizer, as `readChatTemplate`; undefined where it has none.
 *
 * @throws DataError MTL_CHAT_TEMPLATE for one that cannot be used; MTL_DATA_TOKENIZER for files that cannot
 *   be read
 */
export function findChatTemplate(tokenizer: ChatTokenizer): ChatTemplate | undefined {
  const { options } = tokenizer;
  const directory = directoryOfTokenizer(options);
  const config = directory === undefined ? {} : settingsIn(directory, 'tokenizer_config.json');
  const special = directory === undefined ? {} : settingsIn(directory, 'special_tokens_map.json');
  const template = named(options) ?? (directory === undefined ? undefined : templateIn(directory, config));
  if (template === undefined) return undefined;
  return new ChatTemplate({
    ...template,
    specialTokens: {
      ...endOfDocument(tokenizer),
      ...specialTokens(special),
      ...specialTokens(config),
    },
  });
}

/** What templates call the end of a document, unless files say it. */
function endOfDocument({ specialIds, eod, decode }: ChatTokenizer): Readonly<Record<string, string>> {
  if (specialIds === undefined) return { bos_token: endOfText, eos_token: endOfText };
  return { eos_token: decode([eod]) };
}

interface TemplateText {
  readonly text: string;
  readonly name: string;
}

function named(options: TokenizerOptions | undefined): TemplateText | undefined {
  const path = options !== undefined && 'chatTemplate' in options ? options.chatTemplate : undefined;
  return path === undefined ? undefined : { text: readTextFile(path), name: path };
}

/** The folder of the tokenizer's files, where it has one. */
export function directoryOfTokenizer(options: TokenizerOptions | undefined): string | undefined {
  if (options?.type !== 'HuggingFaceTokenizer') return undefined;
  const { tokenizerModel } = options;
  const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
  return isDirectory ? tokenizerModel : dirname(tokenizerModel);
}

function templateIn(directory: string, config: Readonly<Record<string, unknown>>): TemplateText | undefined {
  const path = join(directory, 'chat_template.jinja');
  if (existsSync(path)) return { text: readTextFile(path), name: path };
  const inConfig = config.chat_template;
  const name = `chat_template of ${join(directory, 'tokenizer_config.json')}`;
  if (typeof inConfig === 'string') return { text: inConfig, name };
  if (inConfig !== undefined && inConfig !== null) return { text: defaultOf(inConfig, name), name };
  const legacy = settingsIn(directory, 'chat_template.json').chat_template;
  return typeof legacy === 'string'
    ? { text: legacy, name: join(directory, 'chat_template.json') }
    : undefined;
}

function defaultOf(templates: unknown, name: string): string {
  const list = (Array.isArray(templates) ? templates : []) as ({
    name?: unknown;
    template?: unknown;
  } | null)[];
  const found = list.find((one) => one?.name === 'default') ?? (list.length === 1 ? list[0] : undefined);
  if (typeof found?.template === 'string') return found.template;
  const names = list.map((one) => String(one?.name)).join(', ');
  throw new DataError('MTL_CHAT_TEMPLATE', `${name}: no template is called "default"`, {
    expected: `a text, or a list of templates with one called "default"${names === '' ? '' : `; it has ${names}`}`,
    remedy: 'pass --chat-template FILE with the one that is meant',
  });
}

function settingsIn(directory: string, name: string): Readonly<Record<string, unknown>> {
  const path = join(directory, name);
  if (!existsSync(path)) return {};
  const settings = readJsonFile(path);
  if (isJsonObject(settings)) return settings;
  throw tokenizerError(path, 'is not a JSON object');
}

/** `bos_token` and the like, which are texts or objects with one. */
function specialTokens(settings: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const entries = Object.entries(settings).flatMap(([name, value]) => {
    if (!name.endsWith('_token')) return [];
    const text = tokenText(value);
    return text === undefined ? [] : [[name, text] as const];
  });
  return Object.fromEntries(entries);
}
