import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TokenizerOptions } from '@mtl/data';
import { tokenizerFilesIn } from '@mtl/formats';

const chatTemplateName = 'chat_template.jinja';

/** A file that a tokenizer is made of. */
export interface TokenizerFile {
  /**
   * What it is called in a directory that holds the tokenizer: the name that Hugging Face gives it, in a
   * folder or not.
   */
  readonly name: string;
  readonly path: string;
}

/**
 * The files that a tokenizer is made of; none for one that is built in. A chat template that options name
 * takes the place of all that are next to the files.
 *
 * @throws CheckpointError those of `tokenizerFilesIn`
 */
export function tokenizerFiles(options: TokenizerOptions): readonly TokenizerFile[] {
  const template = templateFiles(options);
  switch (options.type) {
    case 'HuggingFaceTokenizer': {
      const { tokenizerModel } = options;
      const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
      const path = isDirectory ? join(tokenizerModel, 'tokenizer.json') : tokenizerModel;
      // read along with tokenizer.json, or kept for others: chat templates and older forms
      const companions = Object.entries(tokenizerFilesIn(dirname(path))).filter(
        ([name]) => name !== 'tokenizer.json' && !(template.length > 0 && name.endsWith('.jinja')),
      );
      return [
        { name: 'tokenizer.json', path },
        ...companions.map(([name, path]) => ({ name, path })),
        ...template,
      ];
    }
    case 'GPT2BPETokenizer': {
      const { vocabFile, mergeFile } = options;
      return [
        ...(vocabFile === undefined ? [] : [{ name: 'vocab.json', path: vocabFile }]),
        ...(mergeFile === undefined ? [] : [{ name: 'merges.txt', path: mergeFile }]),
        ...template,
      ];
    }
    case 'BertWordPieceLowerCase':
    case 'BertWordPieceCase':
      return [{ name: 'vocab.txt', path: options.vocabFile }];
    default:
      return template;
  }
}

/** The chat template that options name in place of the one next to the files. */
function templateFiles(options: TokenizerOptions): readonly TokenizerFile[] {
  const path = 'chatTemplate' in options ? options.chatTemplate : undefined;
  return path === undefined ? [] : [{ name: chatTemplateName, path }];
}

/** The same tokenizer from the files of a directory that holds copies of `tokenizerFiles`. */
export function tokenizerIn(directory: string, given: TokenizerOptions): TokenizerOptions {
  const options = withTemplateIn(directory, given);
  switch (options.type) {
    case 'HuggingFaceTokenizer':
      return { ...options, tokenizerModel: join(directory, 'tokenizer.json') };
    case 'GPT2BPETokenizer':
      if (options.vocabFile === undefined) return options;
      return {
        ...options,
        vocabFile: join(directory, 'vocab.json'),
        mergeFile: join(directory, 'merges.txt'),
      };
    case 'BertWordPieceLowerCase':
    case 'BertWordPieceCase':
      return { ...options, vocabFile: join(directory, 'vocab.txt') };
    default:
      return options;
  }
}

function withTemplateIn(directory: string, options: TokenizerOptions): TokenizerOptions {
  if (!('chatTemplate' in options) || options.chatTemplate === undefined) return options;
  return { ...options, chatTemplate: join(directory, chatTemplateName) };
}
