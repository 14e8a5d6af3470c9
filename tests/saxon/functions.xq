xquery version "3.1";

(: The values of XSCL, as its language page defines them, in XQuery. Nothing here relies on XQuery's
   own casts of untyped values, which are another language's rules. A value is a node, an xs:string
   or an xs:double; a function takes the first of several nodes, as XPath 1.0 does. :)

declare namespace xscl = "urn:xscl:witness";
declare namespace map = "http://www.w3.org/2005/xpath-functions/map";

(: The documents: maps of id, streams, start, end (microseconds) and tree (a document node). :)
declare variable $documents as map(*)* external;

(: Only documents of different identity make a match. :)
declare function xscl:same($a as map(*), $b as map(*)) as xs:boolean {
  $a?id eq $b?id
};

(: XPath 1.0's string(). :)
declare function xscl:string($value as item()*) as xs:string {
  let $one := head($value)
  return
    typeswitch ($one)
      case xs:double return xscl:decimal-notation($one)
      case empty-sequence() return ""
      default return string($one)
};

(: A number without exponent, with the fewest digits that tell it from all others. :)
declare function xscl:decimal-notation($number as xs:double) as xs:string {
  if ($number ne $number) then "NaN"
  else if ($number eq 0) then "0"
  else if (abs($number) eq xs:double("INF")) then (if ($number gt 0) then "Infinity" else "-Infinity")
  else
    let $sign := if ($number lt 0) then "-" else ""
    let $text := string(abs($number))
    return
      if (not(contains($text, "E"))) then $sign || $text
      else
        let $digits := replace(substring-before($text, "E"), "\.", "")
        let $point := string-length(substring-before($text, ".")) + xs:integer(substring-after($text, "E"))
        let $zeros := string-join((1 to max(($point - string-length($digits), 1 - $point))) ! "0")
        let $padded := if ($point le 0) then $zeros || $digits else $digits || $zeros
        let $whole := substring($padded, 1, max(($point, 1)))
        let $fraction := replace(substring($padded, max(($point, 1)) + 1), "0+$", "")
        return $sign || $whole || (if ($fraction ne "") then "." || $fraction else "")
};

(: XPath 1.0's number(): a minus, digits and a point; neither plus nor exponent; else NaN. :)
declare function xscl:number($value as item()*) as xs:double {
  let $one := head($value)
  return
    if ($one instance of xs:double) then $one
    else
      let $text := xscl:trim(string($one))
      return
        if (matches($text, "^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)$")) then xs:double($text)
        else xs:double("NaN")
};

declare function xscl:trim($text as xs:string) as xs:string {
  replace($text, "^[ \t\r\n]+|[ \t\r\n]+$", "")
};

(: What this witness has no opinion on: the query is then left out of the comparison. :)
declare function xscl:undecided($function as xs:string, $text as xs:string) {
  error(xs:QName("xscl:undecided"), $function || "(" || $text || ")")
};

(: Seconds since 1970 of the dates that feeds write; other spellings of ISO 8601 are left undecided. :)
declare function xscl:date($value as item()*) as xs:double {
  let $text := xscl:trim(xscl:string($value))
  let $iso := "^(\d{4}-\d\d-\d\d)([Tt ](\d\d:\d\d)(:(\d\d(\.\d+)?))?(Z|[+\-]\d\d:\d\d)?)?$"
  let $other-iso := "^\d{4}(-?W\d\d(-?\d)?|-?\d{3}|-?\d\d(-?\d\d)?)?" ||
    "([Tt ]\d\d(:?\d\d(:?\d\d)?)?([.,]\d+)?\s*([Zz]|[+\-]\d\d(:?\d\d)?)?)?$"
  let $rfc := "^([A-Z][a-z]{2}, )?\d\d? (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} " ||
    "\d\d:\d\d(:\d\d)? (GMT|UT|[+\-]\d{4})$"
  let $other-rfc := "\d[\s\-]+(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
  return
    if (matches($text, $iso)) then
      let $day := substring($text, 1, 10)
      let $time := replace($text, $iso, "$3")
      let $seconds := replace($text, $iso, "$5")
      let $zone := replace($text, $iso, "$7")
      let $lexical := $day || "T" || (if ($time) then $time else "00:00") || ":" ||
        (if ($seconds) then $seconds else "00") || (if ($zone) then $zone else "Z")
      return
        if ($lexical castable as xs:dateTime) then xscl:seconds(xs:dateTime($lexical))
        else if (contains($lexical, ":60")) then xscl:undecided("date", $text)
        else xs:double("NaN")
    else if (matches($text, $rfc)) then xscl:seconds(parse-ietf-date($text))
    else if (matches($text, $other-iso) or matches($text, $other-rfc, "i")) then
      xscl:undecided("date", $text)
    else xs:double("NaN")
};

declare function xscl:seconds($time as xs:dateTime) as xs:double {
  xs:double(($time - xs:dateTime("1970-01-01T00:00:00Z")) div xs:dayTimeDuration("PT1S"))
};

(: A URL without tracking parameters, fragment and trailing slash, its host in lower case. :)
declare function xscl:url($value as item()*) as xs:string {
  let $text := xscl:trim(xscl:string($value))
  return
    if (not(matches($text, "^[A-Za-z][A-Za-z0-9+.\-]*://\S*$"))) then $text
    else
      let $bare := replace($text, "#.*$", "")
      let $address := replace($bare, "\?.*$", "")
      let $scheme := lower-case(substring-before($address, "://"))
      let $host := replace(substring-after($address, "://"), "/.*$", "")
      let $path := substring($address, string-length($scheme || "://" || $host) + 1)
      let $kept := tokenize(substring-after($bare, "?"), "&amp;")
        [. ne "" and not(matches(., "^(utm_[^=]*|fbclid|gclid)(=.*)?$"))]
      let $query := if (exists($kept)) then "?" || string-join($kept, "&amp;") else ""
      return
        if (not(matches($host, "^[A-Za-z0-9.\-]+$"))) then xscl:undecided("url", $text)
        else $scheme || "://" || lower-case($host) || replace($path, "/+$", "") || $query
};

(: Text folded to lower case, punctuation and runs of blanks reduced to one blank. Upper case first:
   that is how the folding of Unicode makes one of words with sharp s and with double s. :)
declare function xscl:words($value as item()*) as xs:string {
  normalize-space(
    replace(lower-case(upper-case(xscl:string($value))), "[\p{P}\p{Z}\p{C}]+", " "))
};
