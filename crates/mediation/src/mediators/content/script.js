// What a script sees of its message. `input` is JSON. The result is a function of the script's last value, which returns
// JSON with what the script changed.
(function (input) {
  "use strict";
  const message = JSON.parse(input);
  const NativeDate = Date;
  // The host's clock.
  globalThis.Date = class extends NativeDate {
    constructor(...parts) {
      if (parts.length === 0) super(message.now); else super(...parts);
    }
    static now() { return message.now; }
  };
  // The engine counts jumps and calls, whatever a built-in function does meanwhile: one that walks over long data counts
  // as much as the walk.
  const charge = (length) => {
    for (let left = Number(length) / 64; left > 1; left -= 1);
  };
  const { apply } = Reflect;
  const { isArray } = Array;
  const { isView } = ArrayBuffer;
  const isLong = (data) => typeof data === "string" || isArray(data) || isView(data);
  const metered = (native) => function (...parts) {
    // Methods of arrays walk over any object with a length.
    charge(this?.length);
    for (let at = 0; at < parts.length; at += 1) {
      if (isLong(parts[at])) charge(parts[at].length);
    }
    return apply(native, this, parts);
  };
  // Counts by the length of the result, whose items take longer than those of a walk.
  const meteredAfter = (native, cost) => function (...parts) {
    const result = apply(native, this, parts);
    charge(Number(result?.length) * cost);
    return result;
  };
  // Methods that take the same time for any length.
  const short = new Set([
    "at", "charAt", "charCodeAt", "codePointAt", "entries", "keys", "pop", "push", "subarray", "valueOf", "values",
  ]);
  const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
  for (const type of [String.prototype, Array.prototype, typedArray]) {
    for (const name of Object.getOwnPropertyNames(type)) {
      const property = Object.getOwnPropertyDescriptor(type, name);
      if (typeof property.value !== "function" || name === "constructor" || short.has(name)) continue;
      Object.defineProperty(type, name, { ...property, value: metered(property.value) });
    }
  }
  JSON.parse = metered(JSON.parse);
  JSON.stringify = meteredAfter(JSON.stringify, 8);
  Array.from = meteredAfter(Array.from, 64);
  const { assign, keys } = Object;
  for (const name of ["keys", "values", "entries"]) Object[name] = meteredAfter(Object[name], 64);
  Object.assign = function (...parts) {
    for (let at = 1; at < parts.length; at += 1) {
      if (parts[at] !== undefined && parts[at] !== null) charge(keys(parts[at]).length * 64);
    }
    return apply(assign, Object, parts);
  };
  const changes = [];
  let payload = null;
  let json;
  // XML is text. What scripts for E4X do with it would have no effect, and fails instead.
  const refuse = (name) => {
    throw new TypeError("XML is text here, without `" + String(name) + "`: E4X is not supported");
  };
  const asText = (text) => text === null ? null : new Proxy(new String(text), {
    get(target, name) {
      if (name === "toJSON") return () => text;
      if (typeof name !== "symbol" && !(name in target)) return refuse(name);
      const value = Reflect.get(target, name);
      return typeof value === "function" ? (...parts) => apply(value, text, parts) : value;
    },
    set(_, name) { return refuse(name); },
    deleteProperty(_, name) { return refuse(name); },
  });
  const scopes = message.properties;
  const scopeOf = (scope) => {
    const name = scope === undefined || scope === null ? "default" : String(scope);
    if (!Object.hasOwn(scopes, name)) throw new TypeError("unknown property scope `" + name + "`");
    return name;
  };
  const keyOf = (scope, name) => scope === "transport" ? String(name).toLowerCase() : String(name);
  const mc = {
    getPayloadJSON() {
      if (json === undefined) json = message.json === null ? null : JSON.parse(message.json);
      return json;
    },
    setPayloadJSON(value) {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (text === undefined) throw new TypeError("setPayloadJSON needs a value");
      json = JSON.parse(text);
      message.xml = message.envelope = null;
      message.json = text;
      payload = ["json", text];
    },
    getPayloadXML() { return asText(message.xml); },
    setPayloadXML(value) {
      const text = String(value);
      message.xml = text;
      json = undefined;
      message.json = null;
      payload = ["xml", text];
    },
    getEnvelopeXML() { return asText(message.envelope); },
    getProperty(name, scope) {
      const of = scopeOf(scope);
      const key = keyOf(of, name);
      return Object.hasOwn(scopes[of], key) ? scopes[of][key] : null;
    },
    setProperty(name, value, scope) {
      const of = scopeOf(scope);
      if (value === undefined || value === null) return mc.removeProperty(name, scope);
      scopes[of][keyOf(of, name)] = value;
      changes.push(["set", of, String(name), value]);
    },
    removeProperty(name, scope) {
      const of = scopeOf(scope);
      delete scopes[of][keyOf(of, name)];
      changes.push(["remove", of, String(name)]);
    },
    addHeader(mustUnderstand, content) {
      changes.push(["header", mustUnderstand === true, String(content)]);
    },
    getVariable(name) { return mc.getProperty(name, "variable"); },
    setVariable(name, value) { mc.setProperty(name, value, "variable"); },
    getTo() { return mc.getProperty("To"); },
    setTo(address) { mc.setProperty("To", String(address)); },
    getFrom() { return mc.getProperty("From"); },
    setFrom(address) { mc.setProperty("From", String(address)); },
    getFaultTo() { return mc.getProperty("FaultTo"); },
    setFaultTo(address) { mc.setProperty("FaultTo", String(address)); },
    getReplyTo() { return mc.getProperty("ReplyTo"); },
    setReplyTo(address) { mc.setProperty("ReplyTo", String(address)); },
    getSoapAction() { return message.action; },
    getMessageID() { return mc.getProperty("MessageID"); },
    isResponse() { return message.response; },
    isSOAP11() { return message.soap === 11; },
    isSOAP12() { return message.soap === 12; },
    isDoingPOX() { return message.soap === 0; },
    getServiceLog() { return log; },
  };
  const lines = [];
  const line = (level) => (...parts) => { lines.push([level, parts.map(String).join(" ")]); };
  const log = {
    trace: line("TRACE"), debug: line("DEBUG"), info: line("INFO"),
    warn: line("WARN"), error: line("ERROR"), fatal: line("ERROR"),
  };
  globalThis.print = line("INFO");
  globalThis.mc = mc;
  return (returned) => JSON.stringify({ changes, payload, lines, stop: returned === false });
})
