package tfconfig

import (
	"errors"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// cidrFunctions are the functions of address prefixes, as in github.com/apparentlymart/go-cidr. The result is unknown for texts that only
// the clients accept as addresses, such as those with leading zeros.
var cidrFunctions = map[string]function.Function{
	"cidrhost": ofPrefix([]cty.Type{cty.Number}, nil, func(p netip.Prefix, args []cty.Value) (cty.Value, error) {
		n, ok := whole(args[0])
		size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
		if ok && n.Sign() < 0 {
			n.Add(n, size)
		}
		switch {
		case !ok:
			return cty.NilVal, errors.New("not a whole number")
		case n.Sign() < 0 || n.Cmp(size) >= 0:
			return cty.NilVal, errors.New("the prefix has fewer addresses")
		}
		return cty.StringVal(plus(p.Addr(), n).String()), nil
	}),
	"cidrnetmask": ofPrefix(nil, nil, func(p netip.Prefix, _ []cty.Value) (cty.Value, error) {
		if !p.Addr().Is4() {
			return cty.NilVal, errors.New("an IPv6 prefix has no netmask")
		}
		ones, _ := netip.AddrFrom4([4]byte{255, 255, 255, 255}).Prefix(p.Bits())
		return cty.StringVal(ones.Addr().String()), nil
	}),
	"cidrsubnet": ofPrefix([]cty.Type{cty.Number, cty.Number}, nil, func(p netip.Prefix, args []cty.Value) (cty.Value, error) {
		bits, ok := whole(args[0])
		n, ok2 := whole(args[1])
		switch {
		case !ok || !ok2:
			return cty.NilVal, errors.New("not a whole number")
		case bits.Sign() < 0 || n.Sign() < 0:
			return cty.UnknownVal(cty.String), nil
		case bits.Cmp(big.NewInt(int64(p.Addr().BitLen()-p.Bits()))) > 0 || n.BitLen() > int(bits.Int64()):
			return cty.NilVal, errors.New("the prefix has fewer subnets")
		}
		length := p.Bits() + int(bits.Int64())
		at := plus(p.Addr(), n.Lsh(n, uint(p.Addr().BitLen()-length)))
		return cty.StringVal(netip.PrefixFrom(at, length).String()), nil
	}),
	"cidrsubnets": ofPrefix(nil, &function.Parameter{Name: "newbits", Type: cty.Number}, cidrSubnets),
	"cidrcontains": ofStrings(2, cty.Bool, func(args []string) (cty.Value, error) {
		in, err := netip.ParsePrefix(args[0])
		of, err2 := netip.ParsePrefix(args[1])
		if err2 != nil {
			var at netip.Addr
			if at, err2 = netip.ParseAddr(args[1]); err2 == nil {
				of = netip.PrefixFrom(at, at.BitLen())
			}
		}
		switch {
		case err != nil, err2 != nil, likeIPv4.Overlaps(in), likeIPv4.Overlaps(of), of.Addr().Zone() != "":
			return cty.UnknownVal(cty.Bool), nil
		case in.Addr().Is4() != of.Addr().Is4():
			return cty.NilVal, errors.New("IPv4 and IPv6 do not compare")
		}
		return cty.BoolVal(in.Bits() <= of.Bits() && in.Contains(of.Addr())), nil
	}),
}

// likeIPv4 are the IPv6 addresses that represent IPv4 addresses. Clients write them as IPv4 addresses.
var likeIPv4 = netip.MustParsePrefix("::/80")

// ofPrefix returns a function of a prefix in its canonical form and other values.
func ofPrefix(types []cty.Type, more *function.Parameter, f func(p netip.Prefix, args []cty.Value) (cty.Value, error)) function.Function {
	spec := &function.Spec{Params: []function.Parameter{{Name: "prefix", Type: cty.String}}, VarParam: more}
	for _, t := range types {
		spec.Params = append(spec.Params, function.Parameter{Name: "number", Type: t})
	}
	to := cty.String
	if more != nil {
		to = cty.List(cty.String)
	}
	spec.Type = function.StaticReturnType(to)
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil || likeIPv4.Overlaps(p) {
			return cty.UnknownVal(to), nil
		}
		return f(p.Masked(), args[1:])
	}
	return function.New(spec)
}

// cidrSubnets returns consecutive prefixes. Each is longer than p by a number of bits.
func cidrSubnets(p netip.Prefix, args []cty.Value) (cty.Value, error) {
	if len(args) == 0 {
		return cty.ListValEmpty(cty.String), nil
	}
	if p.Addr().IsUnspecified() { // where the clients find no prefix after the first one
		return cty.UnknownVal(cty.List(cty.String)), nil
	}
	var all []cty.Value
	at := new(big.Int) // offset from the beginning of the prefix
	size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
	for _, arg := range args {
		bits, ok := whole(arg)
		if !ok || bits.Sign() <= 0 || bits.Cmp(big.NewInt(min(32, int64(p.Addr().BitLen()-p.Bits())))) > 0 {
			return cty.NilVal, errors.New("the prefix cannot be extended by so many bits")
		}
		length := p.Bits() + int(bits.Int64())
		step := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-length))
		at.Add(at, step).Sub(at, big.NewInt(1)).Div(at, step).Mul(at, step)
		if at.Cmp(size) >= 0 {
			return cty.NilVal, errors.New("the prefix has fewer subnets")
		}
		all = append(all, cty.StringVal(netip.PrefixFrom(plus(p.Addr(), at), length).String()))
		at.Add(at, step)
	}
	return cty.ListVal(all), nil
}

// whole returns the value of a whole number of at most 128 bits.
func whole(v cty.Value) (*big.Int, bool) {
	f := v.AsBigFloat()
	if !f.IsInt() || f.MantExp(nil) > 128 {
		return nil, false
	}
	n, _ := f.Int(nil)
	return n, true
}

// plus returns the address n after a, which must be an address of the same version of IP.
func plus(a netip.Addr, n *big.Int) netip.Addr {
	bytes := a.AsSlice()
	sum := new(big.Int).SetBytes(bytes)
	sum.Add(sum, n).FillBytes(bytes)
	out, _ := netip.AddrFromSlice(bytes)
	return out
}
