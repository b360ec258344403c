export { proxiesOf, proxyNote, requestSender, type SendRequest } from '../requests/proxies.js';
