export { floatText } from '../python/float-text.js';
export { readTemplateFile, savedTemplates } from '../saved-templates.js';
