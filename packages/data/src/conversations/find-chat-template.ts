import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { ChatTemplate } from '@mtl/chat-templates';
import { readTemplateFile, savedTemplates } from '@mtl/chat-templates/internal';
import { DataError } from '@mtl/errors';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import { endOfText } from '@mtl/tokenizers/internal';

/**
 * Returns the chat template of a tokenizer: the file that its options name, or else the one next to its
 * tokenizer.json, as `openChatTemplate` of @mtl/chat-templates finds it.
 *
 * @throws DataError MTL_CHAT_TEMPLATE if it has no template, or one that cannot be used
 */
export function readChatTemplate(tokenizer: ChatTokenizer): ChatTemplate {
  const template = findChatTemplate(tokenizer);
  if (template !== undefined) return template;
  const directory = directoryOfTokenizer(tokenizer.options);
  const where = directory === undefined ? '' : ` of ${directory}`;
  throw new DataError('MTL_CHAT_TEMPLATE', `the tokenizer${where} has no chat template`, {
    expected: 'chat_template.jinja, or chat_template in tokenizer_config.json',
    remedy:
      'pass --chat-template FILE, a template in Jinja such as the template of an instruction-tuned model',
  });
}

/** Properties of a tokenizer that decide its chat template. */
type ChatTokenizer = Pick<Tokenizer, 'options' | 'specialIds' | 'specialTokens' | 'eod' | 'decode'>;

/**
 * Returns the chat template of a tokenizer, as `readChatTemplate`; undefined where it has none.
 *
 * @throws DataError MTL_CHAT_TEMPLATE for one that cannot be read or used
 */
export function findChatTemplate(tokenizer: ChatTokenizer): ChatTemplate | undefined {
  const { options } = tokenizer;
  const specialTokens = { ...endOfDocument(tokenizer), ...tokenizer.specialTokens };
  const path = options !== undefined && 'chatTemplate' in options ? options.chatTemplate : undefined;
  if (path !== undefined) return new ChatTemplate({ ...readTemplateFile(path), specialTokens });
  const directory = directoryOfTokenizer(options);
  return directory === undefined ? undefined : savedTemplates(directory)?.open(specialTokens);
}

/** Returns the end-of-document token for templates, unless files name it. */
function endOfDocument({ specialIds, eod, decode }: ChatTokenizer): Readonly<Record<string, string>> {
  if (specialIds === undefined) return { bos_token: endOfText, eos_token: endOfText };
  return { eos_token: decode([eod]) };
}

/** Returns the folder of the tokenizer's files, where it has one. */
export function directoryOfTokenizer(options: TokenizerOptions | undefined): string | undefined {
  if (options?.type !== 'HuggingFaceTokenizer') return undefined;
  const { tokenizerModel } = options;
  const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
  return isDirectory ? tokenizerModel : dirname(tokenizerModel);
}
